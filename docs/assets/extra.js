// What scrolls sideways can be reached with the keyboard. The theme makes the frames of the tables
// after the page was loaded, so they are looked for whenever the page changes.
const scrolling = ".md-typeset__scrollwrap:not([tabindex])";
new MutationObserver(() => {
  for (const frame of document.querySelectorAll(scrolling)) frame.tabIndex = 0;
}).observe(document.body, { childList: true, subtree: true });
