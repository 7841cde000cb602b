// Package controllers is the list of all control loops. Each is a package of
// its own below this one; adding a loop is adding a package and a line here.
//
// The names are Kubernetes', so that a --controllers flag which works there works
// here. Every loop needs nothing but the API: it runs against any Kubernetes, and
// several replicas of it may run if a leader is elected.
//
// A loop runs with the permissions of a service account of its own in kube-system, which [Account] finds by the loop's
// name: a new loop needs nothing but a name of Kubernetes'. What it may do is the role "system:controller:ACCOUNT" of
// the bootstrap policy. A loop makes its requests with the context that its Run is given, by which the server knows it.
// Informers are shared and read as system:kube-controller-manager.
package controllers

import (
	"github.com/millrace/millrace/internal/controllers/attachdetach"
	"github.com/millrace/millrace/internal/controllers/attributesclassprotection"
	"github.com/millrace/millrace/internal/controllers/bootstraptoken"
	"github.com/millrace/millrace/internal/controllers/certificates"
	"github.com/millrace/millrace/internal/controllers/clusterrole"
	"github.com/millrace/millrace/internal/controllers/cronjob"
	"github.com/millrace/millrace/internal/controllers/daemonset"
	"github.com/millrace/millrace/internal/controllers/deployment"
	"github.com/millrace/millrace/internal/controllers/devicetainteviction"
	"github.com/millrace/millrace/internal/controllers/disruption"
	"github.com/millrace/millrace/internal/controllers/endpoints"
	"github.com/millrace/millrace/internal/controllers/endpointslice"
	"github.com/millrace/millrace/internal/controllers/endpointslicemirroring"
	"github.com/millrace/millrace/internal/controllers/ephemeralvolume"
	"github.com/millrace/millrace/internal/controllers/garbage"
	"github.com/millrace/millrace/internal/controllers/job"
	"github.com/millrace/millrace/internal/controllers/legacytoken"
	"github.com/millrace/millrace/internal/controllers/loadbalancer"
	"github.com/millrace/millrace/internal/controllers/localvolume"
	"github.com/millrace/millrace/internal/controllers/namespace"
	"github.com/millrace/millrace/internal/controllers/nodeipam"
	"github.com/millrace/millrace/internal/controllers/nodelifecycle"
	"github.com/millrace/millrace/internal/controllers/persistentvolume"
	"github.com/millrace/millrace/internal/controllers/podautoscaler"
	"github.com/millrace/millrace/internal/controllers/podgc"
	"github.com/millrace/millrace/internal/controllers/pvcprotection"
	"github.com/millrace/millrace/internal/controllers/pvprotection"
	"github.com/millrace/millrace/internal/controllers/replicaset"
	"github.com/millrace/millrace/internal/controllers/replication"
	"github.com/millrace/millrace/internal/controllers/resourceclaim"
	"github.com/millrace/millrace/internal/controllers/resourcequota"
	"github.com/millrace/millrace/internal/controllers/rootca"
	"github.com/millrace/millrace/internal/controllers/serviceaccount"
	"github.com/millrace/millrace/internal/controllers/servicecidr"
	"github.com/millrace/millrace/internal/controllers/statefulset"
	"github.com/millrace/millrace/internal/controllers/storageversionmigrator"
	"github.com/millrace/millrace/internal/controllers/tainteviction"
	"github.com/millrace/millrace/internal/controllers/trustbundle"
	"github.com/millrace/millrace/internal/controllers/ttl"
	"github.com/millrace/millrace/internal/controllers/validatingadmissionpolicystatus"
	"github.com/millrace/millrace/internal/controllers/volumeexpand"
	"github.com/millrace/millrace/loop"
)

// Program is what the loops are called as managers of the fields that they write.
const Program = "kube-controller-manager"

// Options are what loops cannot learn from the API, and what may be asked of them.
// The zero value works.
type Options struct {
	// RootCA are the certificates, in PEM, by which clients know the API server.
	// Without them they are not published.
	RootCA []byte
	// Nodes says when nodes are given up, and how fast their pods are evicted.
	Nodes nodelifecycle.Options
	// Ranges says where nodes get the ranges for their pods from. Without any, nodes get none.
	Ranges nodeipam.Options
	// Volumes says what the provisioner of local volumes makes of its own accord.
	Volumes localvolume.Options
	// Balancers says which ports no service of the type LoadBalancer gets on nodes. The loop is off by default.
	Balancers loadbalancer.Options
	// Autoscaling says how often and how eagerly workloads are scaled.
	Autoscaling podautoscaler.Options
	// Pods says how many finished ones may stay.
	Pods podgc.Options
	// Claiming says whether volumes are made for claims.
	Claiming persistentvolume.Options
	// Attaching says whether volumes are taken from nodes that do not answer.
	Attaching attachdetach.Options
	// CronJobs, Jobs, ReplicaSets and StatefulSets say who counts what becomes of them.
	CronJobs     cronjob.Options
	Jobs         job.Options
	ReplicaSets  replicaset.Options
	StatefulSets statefulset.Options
	// Slices and Mirrors say who counts EndpointSlices: those of Services with selectors, and those of Endpoints that
	// users write.
	Slices  endpointslice.Options
	Mirrors endpointslicemirroring.Options
	// Evictions and DeviceEvictions say who counts the pods that go because of taints of nodes and of devices.
	Evictions       tainteviction.Options
	DeviceEvictions devicetainteviction.Options
	// Publishing and Bundling say who counts what is published. Their certificates are those of RootCA.
	Publishing rootca.Options
	Bundling   trustbundle.Options
	// Ephemeral says who counts the claims that are made for pods.
	Ephemeral ephemeralvolume.Options
	// Garbage says who counts failures of discovery.
	Garbage garbage.Options
	// Claims says who counts what becomes of resource claims.
	Claims resourceclaim.Options
	// Making says by whom tokens in secrets are signed. Without a key none are made. Its RootCA is that of these
	// options.
	Making legacytoken.Making
	// Cleaning says how long a token in a secret must not have been used until it is removed.
	Cleaning legacytoken.Cleaning
	// Signing says by whom certificates are signed. Without an authority none are.
	Signing certificates.Signing
}

// All returns the entries of all loops, for a [loop.Group].
func All(options Options) []loop.Entry {
	options.Making.RootCA = options.RootCA
	options.Publishing.Certificates, options.Bundling.Certificates = options.RootCA, options.RootCA
	return []loop.Entry{
		bootstraptoken.Cleaner,
		bootstraptoken.Signer,
		certificates.Approving,
		certificates.Cleaner,
		certificates.PodCleaner,
		options.Signing.Entry(),
		clusterrole.Entry,
		options.CronJobs.Entry(),
		daemonset.Entry,
		deployment.Entry,
		options.DeviceEvictions.Entry(),
		disruption.Entry,
		options.ReplicaSets.Entry(),
		replication.Entry,
		endpoints.Entry,
		options.Slices.Entry(),
		options.Mirrors.Entry(),
		options.Garbage.Entry(),
		options.Jobs.Entry(),
		options.Jobs.TTLEntry(),
		options.Making.Entry(),
		options.Cleaning.Entry(),
		namespace.Entry,
		options.Ranges.Entry(),
		options.Nodes.Entry(),
		options.Pods.Entry(),
		options.Volumes.Entry(),
		options.Autoscaling.Entry(),
		options.Balancers.Entry(),
		options.Claiming.Entry(),
		options.Ephemeral.Entry(),
		volumeexpand.Entry,
		options.Attaching.Entry(),
		attributesclassprotection.Entry,
		pvcprotection.Entry,
		pvprotection.Entry,
		options.Claims.Entry(),
		resourcequota.Entry,
		options.Publishing.Entry(),
		servicecidr.Entry,
		serviceaccount.Entry,
		options.StatefulSets.Entry(),
		storageversionmigrator.Entry,
		options.Evictions.Entry(),
		options.Bundling.Entry(),
		ttl.Entry,
		validatingadmissionpolicystatus.Entry,
	}
}
