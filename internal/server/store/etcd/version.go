package etcd

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/util/version"
)

// Versions of etcd before these report a watch's progress before they have sent all events up to there, so that events
// would be missing: the defect is that of https://github.com/etcd-io/etcd/issues/15220. Kubernetes asks those for no
// progress; this program cannot do without.
var (
	oldest  = version.MustParseSemantic("3.4.25")
	next    = version.MustParseSemantic("3.5.0")
	nextOld = version.MustParseSemantic("3.5.8")
)

// checkVersion fails if a server of the cluster has a version with which events can be missing. A version that cannot be
// read is accepted: other stores speak etcd's protocol, and number their versions in their own way.
func checkVersion(text string) error {
	v, err := version.ParseSemantic(text)
	switch {
	case err != nil:
		return nil
	case v.LessThan(oldest):
		return fmt.Errorf("etcd %s is too old: %s or newer is needed, because older ones report the progress of watches wrongly", text, oldest)
	case v.AtLeast(next) && v.LessThan(nextOld):
		return fmt.Errorf("etcd %s is too old: of 3.5, %s or newer is needed, because older ones report the progress of watches wrongly", text, nextOld)
	}
	return nil
}

// checkVersions asks each server for its version. Those that do not answer are left out: the others may be enough.
func (o Options) checkVersions(ctx context.Context, versionAt func(ctx context.Context, endpoint string) (string, error)) error {
	for _, endpoint := range o.Endpoints {
		err := attempt(ctx, func(ctx context.Context) error {
			text, err := versionAt(ctx, endpoint)
			if err != nil {
				o.Logger.Debug("the version of an etcd server is not known", "server", endpoint, "error", err)
				return nil
			}
			return checkVersion(text)
		})
		if err != nil {
			return fmt.Errorf("%s: %w", endpoint, err)
		}
	}
	return nil
}
