// Package apiserver speaks HTTP: it finds out what a request asks for, in which format, and by whom; has the registry do
// it; and writes the answer, or the stream.
//
// Routes follow from the catalogue of kinds: which verbs a path offers is what its kind can do, and discovery tells the
// same. Nothing in this package names a kind. Subresources that do more than change an object (bindings, tokens, logs) and
// kinds that are never stored (reviews) are registered by whoever puts the server together, as Actions and Connections.
//
// Whatever comes in, the answer is a status with a reason: malformed input is the caller's error and never ends in a
// panic. A panic nevertheless is logged, answered with 500, and hurts no other request.
package apiserver
