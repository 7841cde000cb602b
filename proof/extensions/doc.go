// Package extensions compares the effects of webhooks and policies with recorded answers of a kube-apiserver.
package extensions
