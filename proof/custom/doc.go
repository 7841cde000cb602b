// Package custom tests what operators need of custom resources, with client-go and kubectl.
package custom
