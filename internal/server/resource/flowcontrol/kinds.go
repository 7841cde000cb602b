// Package flowcontrol describes the kinds of the group flowcontrol.apiserver.k8s.io, and the objects of the group that
// every cluster has.
package flowcontrol

import "github.com/millrace/millrace/internal/server/resource"

// Kinds returns the kinds of the group.
func Kinds() []*resource.Kind { return []*resource.Kind{FlowSchemas(), PriorityLevels()} }
