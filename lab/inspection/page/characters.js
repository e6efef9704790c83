"use strict";

// The text and how it is shown: every character visible, none with power over its surroundings.

const numbers = JSON.parse(document.getElementById("numbers").textContent);
const characters = Array.from(numbers.text);  // of a sequence the labels of its steps
const between = Array.isArray(numbers.text) ? " " : "";

const SIGNS = new Map([["\n", "⏎"], ["\t", "⇥"], ["\r", "␍"]]);
const COMBINING = /^\p{M}$/u;
// Controls, formats (bidirectional overrides, joiners, marks of direction), private and unassigned characters, and spaces other
// than the usual one, fillers and selectors that draw nothing.
const INVISIBLE = /^[\p{C}\p{Z}\p{Default_Ignorable_Code_Point}\u2800]$/u;

function codePoint(character) {
  return "U+" + character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
}

/** What stands for a character, and its kind: "plain", "sign" (a symbol in its place) or "code" (its number). */
function visible(character) {
  if (character === " ") return {text: " ", kind: "plain"};
  const sign = SIGNS.get(character);
  if (sign !== undefined) return {text: sign, kind: "sign"};
  if (INVISIBLE.test(character)) return {text: codePoint(character), kind: "code"};
  if (COMBINING.test(character)) return {text: "\u25cc" + character, kind: "plain"};
  return {text: character, kind: "plain"};
}

/** The same within a line of prose, where a space must show too. */
function named(character) {
  return character === " " ? "␣" : visible(character).text;
}
