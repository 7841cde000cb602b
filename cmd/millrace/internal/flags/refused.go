package flags

import (
	"fmt"

	"github.com/spf13/pflag"
)

// Refused are flags of one of Kubernetes' programs without which something would be lost or open to others. They have no
// effect here, so that the program does not start with them. Each has the reason.
type Refused map[string]string

// RefusedByServer are those of kube-apiserver.
var RefusedByServer = Refused{
	"etcd-servers-overrides": "all objects are in the etcd cluster of --etcd-servers, so that those in another one would be missing: " +
		"move them there, or keep kube-apiserver",
	"egress-selector-config-file": "nodes, webhooks and API servers of others are reached directly, and not through a proxy: keep kube-apiserver",
	"service-account-signing-endpoint": "tokens are signed with the key in --service-account-signing-key-file, and not by another program: " +
		"name a key, or keep kube-apiserver",
	"admission-control": "the plugins that it leaves out would be asked, and the order would not be followed: " +
		"use --enable-admission-plugins and --disable-admission-plugins",
}

// Add adds the flags. --help does not show them.
func (r Refused) Add(fl *pflag.FlagSet) {
	for name := range r {
		fl.StringSlice(name, nil, "")
		fl.Lookup(name).Hidden = true
	}
}

// Check fails if one of the flags has a value. Without a command line none has.
func (r Refused) Check(fl *pflag.FlagSet) error {
	if fl == nil {
		return nil
	}
	for name, reason := range r {
		if given, err := fl.GetStringSlice(name); err == nil && len(given) > 0 && (len(given) > 1 || given[0] != "") {
			return fmt.Errorf("--%s: %s", name, reason)
		}
	}
	return nil
}
