// Package builtin combines the kinds of all built-in API groups.
package builtin

import (
	"slices"

	"github.com/millrace/millrace/internal/server/resource"
	"github.com/millrace/millrace/internal/server/resource/admissionregistration"
	"github.com/millrace/millrace/internal/server/resource/apiextensions"
	"github.com/millrace/millrace/internal/server/resource/apiregistration"
	"github.com/millrace/millrace/internal/server/resource/apps"
	"github.com/millrace/millrace/internal/server/resource/authentication"
	"github.com/millrace/millrace/internal/server/resource/authorization"
	"github.com/millrace/millrace/internal/server/resource/autoscaling"
	"github.com/millrace/millrace/internal/server/resource/batch"
	"github.com/millrace/millrace/internal/server/resource/certificates"
	"github.com/millrace/millrace/internal/server/resource/coordination"
	"github.com/millrace/millrace/internal/server/resource/core"
	"github.com/millrace/millrace/internal/server/resource/devices"
	"github.com/millrace/millrace/internal/server/resource/discovery"
	"github.com/millrace/millrace/internal/server/resource/flowcontrol"
	"github.com/millrace/millrace/internal/server/resource/networking"
	"github.com/millrace/millrace/internal/server/resource/node"
	"github.com/millrace/millrace/internal/server/resource/past"
	"github.com/millrace/millrace/internal/server/resource/policy"
	"github.com/millrace/millrace/internal/server/resource/rbac"
	"github.com/millrace/millrace/internal/server/resource/scheduling"
	"github.com/millrace/millrace/internal/server/resource/storage"
	"github.com/millrace/millrace/internal/server/resource/storagemigration"
)

// Kinds returns all built-in kinds, with the versions in which old servers have stored them.
func Kinds() []*resource.Kind {
	all := slices.Concat(
		core.Kinds(),
		admissionregistration.Kinds(),
		apiextensions.Kinds(),
		apiregistration.Kinds(),
		apps.Kinds(),
		authentication.Kinds(),
		authorization.Kinds(),
		autoscaling.Kinds(),
		batch.Kinds(),
		certificates.Kinds(),
		coordination.Kinds(),
		devices.Kinds(),
		discovery.Kinds(),
		flowcontrol.Kinds(),
		networking.Kinds(),
		node.Kinds(),
		policy.Kinds(),
		rbac.Kinds(),
		scheduling.Kinds(),
		storage.Kinds(),
		storagemigration.Kinds(),
	)
	past.Complete(all)
	return all
}
