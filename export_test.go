package millrace

import "github.com/millrace/millrace/server/store"

// Around makes options of a cluster with something between its store and all that uses it.
func Around(o Options, around func(store.Store) store.Store) Options {
	o.around = around
	return o
}

// Store is what the cluster keeps its objects in.
func (c *Cluster) Store() store.Store { return c.store }
