// On a phone a state diagram, which is wider than the page, begins at its middle: there its normal
// path is. A sequence chart begins at its left, as it is.
addEventListener("load", () => {
  for (const picture of document.querySelectorAll('p img[src*="diagrams/"]')) {
    const place = picture.closest("p");
    place.scrollLeft = (place.scrollWidth - place.clientWidth) / 2;
  }
});
