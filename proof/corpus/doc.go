// Package corpus compares answers with those recorded of kube-apiserver. It has only tests.
package corpus
