package millrace

import (
	"context"
	"time"

	"github.com/millrace/millrace/server/apiserver"
	"github.com/millrace/millrace/server/registry"
	"github.com/millrace/millrace/server/watchcache"
)

// started are kube-apiserver's names for the parts of a start. It answers requests meanwhile, and has a check for each part. Here all of them have ended
// before the first request is answered, and an error ends the program. So these checks pass; they are for those who ask for one by its name.
var started = []string{
	"log",
	"poststarthook/start-apiserver-admission-initializer",
	"poststarthook/generic-apiserver-start-informers",
	"poststarthook/priority-and-fairness-config-consumer",
	"poststarthook/priority-and-fairness-filter",
	"poststarthook/start-apiextensions-informers",
	"poststarthook/start-apiextensions-controllers",
	"poststarthook/crd-informer-synced",
	"poststarthook/start-system-namespaces-controller",
	"poststarthook/start-cluster-authentication-info-controller",
	"poststarthook/storage-readiness",
	"poststarthook/start-legacy-token-tracking-controller",
	"poststarthook/start-service-ip-repair-controllers",
	"poststarthook/rbac/bootstrap-roles",
	"poststarthook/scheduling/bootstrap-system-priority-classes",
	"poststarthook/priority-and-fairness-config-producer",
	"poststarthook/bootstrap-controller",
	"poststarthook/start-kubernetes-service-cidr-controller",
	"poststarthook/start-kube-aggregator-informers",
	"poststarthook/apiservice-status-local-available-controller",
	"poststarthook/apiservice-status-remote-available-controller",
	"poststarthook/apiservice-registration-controller",
	"poststarthook/apiservice-discovery-controller",
	"poststarthook/kube-apiserver-autoregistration",
	"autoregister-completion",
	"poststarthook/apiservice-openapi-controller",
	"poststarthook/apiservice-openapiv3-controller",
}

// storeAnswers is the check whether the store answers.
func storeAnswers(reg *registry.Registry) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		_, err := reg.Store.Revision(ctx)
		return err
	}
}

// checks are the checks of /livez, /readyz and /healthz.
func (c *Cluster) checks(reg *registry.Registry, cache *watchcache.Cache) []apiserver.Check {
	answers := storeAnswers(reg)
	follows := func(context.Context) error {
		if !cache.Ready() {
			return watchcache.ErrNotReady
		}
		return nil
	}
	all := []apiserver.Check{
		{Name: "etcd", Live: true, Do: answers},
		{Name: "etcd-readiness", ReadyOnly: true, Do: answers},
		{Name: "informer-sync", ReadyOnly: true, Do: follows},
		{Name: "storage-space", Do: func(context.Context) error { return reg.Store.Writable() }},
		{Name: "watch-cache", Do: follows},
	}
	for _, name := range started {
		all = append(all, apiserver.Check{Name: name, Live: true, Do: func(context.Context) error { return nil }})
	}
	return append(all, apiserver.Check{Name: "shutdown", ReadyOnly: true, Quiet: true, Do: func(context.Context) error {
		if c.ending.Load() {
			return errClosing
		}
		return nil
	}})
}
