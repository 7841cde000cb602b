// Package corpus proves that answers are those that were recorded of kube-apiserver. It has only tests.
package corpus
