// What scrolls sideways can be reached with the keyboard. The theme makes the frames of the tables
// after the page was loaded, so they are looked for whenever the page changes.
const scrolling = ".md-typeset__scrollwrap:not([tabindex])";
new MutationObserver(() => {
  for (const frame of document.querySelectorAll(scrolling)) frame.tabIndex = 0;
}).observe(document.body, { childList: true, subtree: true });

// A long name in a table may go on in a new line after a sign, and not within a word.
const named = ".md-typeset table:not([class]) td:first-child code";
document$.subscribe(() => {
  for (const code of document.querySelectorAll(named)) {
    for (const text of [...code.childNodes].filter((it) => it.nodeType === Node.TEXT_NODE)) {
      const parts = text.data.split(/(?<=[_.,(=/:])(?=\w)/);
      text.replaceWith(...parts.flatMap((part, at) => (at ? [document.createElement("wbr"), part] : [part])));
    }
  }
});
