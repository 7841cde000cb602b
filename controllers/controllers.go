// Package controllers is the list of all control loops. Each is a package of
// its own below this one; adding a loop is adding a package and a line here.
//
// The names are Kubernetes', so that a --controllers flag which works there works
// here. Every loop needs nothing but the API: it runs against any Kubernetes, and
// several replicas of it may run if a leader is elected.
package controllers

import (
	"slices"

	"github.com/millrace/millrace/controllers/deployment"
	"github.com/millrace/millrace/controllers/endpoints"
	"github.com/millrace/millrace/controllers/endpointslice"
	"github.com/millrace/millrace/controllers/garbage"
	"github.com/millrace/millrace/controllers/namespace"
	"github.com/millrace/millrace/controllers/replicaset"
	"github.com/millrace/millrace/loop"
)

var all = []loop.Entry{
	deployment.Entry,
	endpoints.Entry,
	endpointslice.Entry,
	garbage.Entry,
	namespace.Entry,
	replicaset.Entry,
}

// All returns the entries of all loops, for a [loop.Group].
func All() []loop.Entry { return slices.Clone(all) }
