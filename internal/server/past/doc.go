// Package past serves the API as it was: /at/WHEN/… is every path that can be read, at a moment that the store still
// has. WHEN is a revision (1234), a time (2026-11-29T12:00:00Z), or how long ago (10m).
//
// What is there is what was there: objects, custom kinds, their schemas and columns, discovery and OpenAPI documents.
// A watch begins at the moment and shows everything that came after it, up to now and on. Nothing can be changed.
//
// Who may read what is decided by whoever calls this package, with the permissions of now: a request is authorized for
// its path without the prefix.
package past
