// Package apiserver implements the HTTP API. It finds out what a request asks for, in which format, and from whom;
// passes it to the registry; and writes the answer, or the stream.
//
// Routes follow from the catalogue of kinds: a path offers the verbs that its kind supports, and discovery shows the
// same. Nothing in this package names a kind. Subresources that do more than change an object (bindings, tokens, logs)
// and kinds that are never stored (reviews) are registered as Actions and Connections by the code that assembles the
// server.
//
// Every error is answered with a Status that has a reason. Malformed input is a client error and never causes a panic.
// If a handler does panic, the panic is logged and answered with 500, and other requests are not affected.
package apiserver
