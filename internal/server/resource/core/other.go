package core

import "github.com/millrace/millrace/internal/server/resource"

// otherKinds are the kinds of the group that are not about running containers.
func otherKinds() []*resource.Kind {
	return []*resource.Kind{
		ComponentStatuses(),
		ConfigMaps(),
		Endpoints(),
		Events(),
		LimitRanges(),
		Namespaces(),
		PersistentVolumeClaims(),
		PersistentVolumes(),
		ResourceQuotas(),
		Secrets(),
		ServiceAccounts(),
		Services(),
	}
}
