// Package builtin puts the kinds of all API groups together.
package builtin

import (
	"slices"

	"github.com/millrace/millrace/resource"
	"github.com/millrace/millrace/resource/admissionregistration"
	"github.com/millrace/millrace/resource/apps"
	"github.com/millrace/millrace/resource/authentication"
	"github.com/millrace/millrace/resource/authorization"
	"github.com/millrace/millrace/resource/autoscaling"
	"github.com/millrace/millrace/resource/batch"
	"github.com/millrace/millrace/resource/certificates"
	"github.com/millrace/millrace/resource/coordination"
	"github.com/millrace/millrace/resource/core"
	"github.com/millrace/millrace/resource/discovery"
	"github.com/millrace/millrace/resource/networking"
	"github.com/millrace/millrace/resource/node"
	"github.com/millrace/millrace/resource/policy"
	"github.com/millrace/millrace/resource/rbac"
	"github.com/millrace/millrace/resource/scheduling"
	"github.com/millrace/millrace/resource/storage"
)

// Kinds are all kinds that are always served.
func Kinds() []*resource.Kind {
	return slices.Concat(
		core.Kinds(),
		admissionregistration.Kinds(),
		apps.Kinds(),
		authentication.Kinds(),
		authorization.Kinds(),
		autoscaling.Kinds(),
		batch.Kinds(),
		certificates.Kinds(),
		coordination.Kinds(),
		discovery.Kinds(),
		networking.Kinds(),
		node.Kinds(),
		policy.Kinds(),
		rbac.Kinds(),
		scheduling.Kinds(),
		storage.Kinds(),
	)
}
