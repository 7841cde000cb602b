// Package extensions holds what webhooks and policies do to requests against recorded answers of a kube-apiserver.
package extensions
