// Package resourcetest holds kinds against what a kube-apiserver did with the same requests, without a server.
//
// It reads the recorded stories of internal/corpus. A step concerns a test if the kind that its path names is among those given, so a
// package sees its own steps only. What the registry and admission do (metadata, allocated addresses) is not compared;
// what they add to a spec is named by the caller, with Except.
//
// Stored needs no recording: it fills objects at random and holds stored bytes and selectable fields against them.
package resourcetest
