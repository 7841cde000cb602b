// Package resourcetest compares kinds with what kube-apiserver did with the same requests, without a server.
//
// It reads the recorded stories of internal/corpus, and uses the steps for the given kinds. What the registry and
// admission do (metadata, allocated addresses) is not compared; the caller excludes what they add to a spec with
// Except.
//
// Stored needs no recording: it fills objects at random and compares them with their stored bytes and selectable
// fields.
package resourcetest
