// Package pressure says when a node runs short of memory, disk or processes, and which pod has to go.
//
// What is guaranteed: a node under pressure says so as long as it holds and for a while after, so that pods do not come
// and go; one pod is chosen at a time, first among those that use more than they asked for, the least important first,
// and never a critical static one.
package pressure
