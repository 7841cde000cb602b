// Package page has the tests of the page in a real browser: Debian's headless Chromium. They are skipped where there is
// none.
package page
