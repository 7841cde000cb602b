// Package h2 is a client for measurements: HTTP/2 over TLS with as little work of its own as possible, so that what is
// measured is the server.
//
// A connection has one goroutine, which reads. It hands the pieces of an answer to the answer's Sink as they come; nothing
// is copied or queued, so that a Sink must not block and must not keep the bytes. Requests may be made from many goroutines.
// What went over the wire, TLS included, is counted.
//
// It is not a client for general use: it does not follow redirects, knows no priorities and no pushed answers, and
// does not decompress.
package h2
