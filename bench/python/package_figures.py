"""What packages.py says of the rows that it measured: ratios, lines of a table."""

import statistics

WAYS = ("without", "with")
PASSES = ("training", "inference")


def ratio(row, name, figure=min):
    """Time with heed over time without; None where it was not measured."""
    taken = row.get("seconds", {}).get(name)
    return figure(taken["with"]) / figure(taken["without"]) if taken else None


def zentorch_ratio(row):
    taken = row.get("zentorch")
    return min(taken["zentorch"]) / min(taken["without"]) if taken else None


def calls_said(row):
    """Which calls heed computed, in words, and what the others were."""
    parts, others = [], {}
    for name, (ours, all_of_them, rest) in row.get("calls", {}).items():
        parts.append(f"{name} {ours} of {all_of_them}")
        others |= rest
    return ", ".join(parts) + "".join(f"; {other}" for other in others)


def remark(row):
    """What a reader must know of a row: why there are no figures, or where heed does not help."""
    failures = [f"{key.removesuffix('failed')}{row[key]}" for key in row if key.endswith("failed")]
    said = [row["note"]] if row["note"] else []
    for name in PASSES:
        factor = ratio(row, name)
        if factor is not None and factor > 0.97:
            said.append(f"{name}: no gain" if factor < 1.03 else f"{name}: a loss")
    return "; ".join(said + failures)


def cell(number, form):
    return "" if number is None else format(number, form)


FIGURES = (("least", min), ("median", statistics.median))


def csv_rows(rows):
    """A row a package with every figure."""
    for row in rows:
        line = {"model": row["name"], "package": row["package"], "version": row["version"] or ""}
        line |= {"sizes": row["as"], "heed by": row["heed"]}
        for name in PASSES:
            for label, figure in FIGURES:
                for way in WAYS:
                    taken = row.get("seconds", {}).get(name)
                    line[f"{name} {label} s {way}"] = cell(figure(taken[way]) if taken else None, ".5f")
                line[f"{name} {label} ratio"] = cell(ratio(row, name, figure), ".3f")
            line[f"{name} rounds"] = len(row["seconds"][name]["with"]) if name in row.get("seconds", {}) else ""
            for way in WAYS:
                line[f"{name} MiB {way}"] = cell(row.get("MiB", {}).get(name, {}).get(way), ".1f")
        line["zentorch ratio of inference"] = cell(zentorch_ratio(row), ".3f")
        found = row.get("agreement", {})
        for key in ("loss", "loss apart", "gradients apart", "outputs apart"):
            line[key] = cell(found.get(key), ".3g")
        for key, values in found.get("losses", dict.fromkeys(("without", "with", "another seed"), ())).items():
            line[f"losses {key}"] = " ".join(format(value, ".6g") for value in values)
        yield {**line, "calls": calls_said(row), "remark": remark(row)}


def table(rows):
    """The table of the documents, in Markdown."""
    lines = ["| model | heed by | training | inference | MiB training, inference | calls by heed | remarks |", f"|{'---|' * 7}"]
    for row in rows:
        factors = [cell(ratio(row, name), ".2f") for name in PASSES]
        kept = (row["MiB"][name] for name in PASSES if name in row.get("MiB", {}))
        memory = ", ".join(f"{part['without']:.0f} → {part['with']:.0f}" for part in kept)
        zentorch = zentorch_ratio(row)
        factors[1] += "" if zentorch is None else f" (zentorch {zentorch:.2f})"
        cells = [row["name"], f"`{row['heed']}`" if row["heed"] else "", *factors, memory, calls_said(row), remark(row)]
        lines.append(f"| {' | '.join(part.replace('|', '/') for part in cells)} |")
    return "\n".join(lines)
