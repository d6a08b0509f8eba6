"use strict";
const find = (id) => document.getElementById(id);

// Returns a new element.
function made(name, className, text) {
  const element = document.createElement(name);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}

// Makes one of some elements the only one that the Tab key reaches.
function reachOnly(elements, chosen) {
  for (const one of elements) one.tabIndex = one === chosen ? 0 : -1;
}
