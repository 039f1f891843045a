// An option is chosen by clicking it: the page is sent off at once, also for one that is chosen already.
"use strict";
for (const radio of document.querySelectorAll("input[type=radio]")) {
  radio.addEventListener("click", () => radio.form.requestSubmit());
}
