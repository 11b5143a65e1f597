// Menus are gone through by arrow keys, as selects are.
document.addEventListener("keydown", (event) => {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  const items = [...document.querySelectorAll(".q-menu .q-item[tabindex]")];
  if (!step || !items.length || document.querySelector(".q-menu [role=listbox]")) return;
  event.preventDefault();
  const here = items.indexOf(document.activeElement), all = items.length;
  items[here < 0 ? (step > 0 ? 0 : all - 1) : (here + step + all) % all].focus();
});

// Tells which subset of the lattice was chosen, by mouse or keyboard.
function chosenNode(event, emit) {
  const node = event.target.closest("[data-kept]");
  if (!node || (event.key && event.key !== "Enter" && event.key !== " ")) return;
  event.preventDefault();
  emit(node.dataset.kept);
}
