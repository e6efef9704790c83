"""Folders of kept models that something happened to."""

import json

HOSTILE = [None, True, -1, 0, 1, 7, 2**31, 2**63, 10**30, 0.5, -1e300, 1e308, "", "a", "\ud800", "none", "shaw", "x" * 9999, [], [[]], [0] * 999, {}]


def damaged(generator, folder):
    """Changes a field of config.json, or of the header of model.safetensors, or bytes of either."""
    path = folder / generator.choice(["config.json", "model.safetensors"])
    data = bytearray(path.read_bytes())
    kind = generator.choice(["field", "field", "bytes", "end"])
    if kind == "end":
        path.write_bytes(data[: generator.randrange(len(data))])
        return
    length = int.from_bytes(data[:8], "little") if path.suffix == ".safetensors" else len(data)
    begin = 8 if path.suffix == ".safetensors" else 0
    if kind == "bytes":
        for _ in range(generator.randint(1, 4)):
            data[generator.randrange(begin + length)] = generator.randrange(256)
        path.write_bytes(data)
        return
    whole = json.loads(data[begin : begin + length])
    place, keys = whole, [whole]
    while isinstance(place, (dict, list)) and place:
        keys.append((place, generator.choice(list(place) if isinstance(place, dict) else range(len(place)))))
        place = keys[-1][0][keys[-1][1]]
    within, key = generator.choice(keys[1:])
    if generator.random() < 0.2:
        del within[key]
    else:
        within[key] = generator.choice(HOSTILE)
    text = json.dumps(whole).encode()
    path.write_bytes(text if begin == 0 else len(text).to_bytes(8, "little") + text + data[begin + length :])
