// Package query parses and validates the query parameters of lists, watches and writes. Its errors have
// kube-apiserver's words.
package query
