// Package rules holds the filters and scores that every Kubernetes scheduler
// has, with their names, their weights and the words in which they refuse.
//
// [Defaults] puts them together as kube-scheduler does.
package rules
