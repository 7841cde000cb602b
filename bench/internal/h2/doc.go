// Package h2 is a client for measurements: HTTP/2 over TLS with as little work of its own as possible, so that the
// server is measured.
//
// A connection has one goroutine, which reads. It passes each piece of an answer to the answer's Sink when it arrives.
// Nothing is copied or queued, so a Sink must not block and must not keep the bytes. Many goroutines may send requests.
// The bytes of the connections are counted, including TLS.
//
// It is not a client for general use: it does not follow redirects, has no priorities and no server push, and does not
// decompress.
package h2
