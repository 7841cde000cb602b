// Package core describes the kinds of the core group.
package core

import (
	"slices"

	"github.com/millrace/millrace/internal/server/resource"
)

// Kinds returns the kinds of the group.
func Kinds() []*resource.Kind { return slices.Concat(workloads(), otherKinds()) }
