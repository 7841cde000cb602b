// Package query reads and checks the query parameters of lists, watches and changes, in the words of kube-apiserver.
package query
