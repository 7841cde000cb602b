// Package rules has the filters and scores of kube-scheduler, with their names, weights and messages.
//
// [Defaults] returns them as kube-scheduler uses them.
package rules
