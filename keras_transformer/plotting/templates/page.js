"use strict";
const find = (id) => document.getElementById(id);

// Returns a new element.
function made(name, className, text) {
  const element = document.createElement(name);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}

// Lets the Tab key reach a single one of some elements.
function reachOnly(elements, chosen) {
  for (const element of elements) element.tabIndex = element === chosen ? 0 : -1;
}
