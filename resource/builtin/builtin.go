// Package builtin puts the kinds of all API groups together.
package builtin

import (
	"slices"

	"github.com/millrace/millrace/resource"
	"github.com/millrace/millrace/resource/apps"
	"github.com/millrace/millrace/resource/autoscaling"
	"github.com/millrace/millrace/resource/batch"
	"github.com/millrace/millrace/resource/core"
	"github.com/millrace/millrace/resource/policy"
)

// Kinds are all kinds that are always served.
func Kinds() []*resource.Kind {
	return slices.Concat(
		core.Kinds(),
		apps.Kinds(),
		autoscaling.Kinds(),
		batch.Kinds(),
		policy.Kinds(),
	)
}
