// Package custom proves what operators need of custom resources, by client-go and kubectl.
package custom
