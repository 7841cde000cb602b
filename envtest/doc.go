// Package envtest gives a test suite a Kubernetes API server, by the names of
// sigs.k8s.io/controller-runtime/pkg/envtest: a suite moves over by its import line.
//
//	testEnv := &envtest.Environment{CRDDirectoryPaths: []string{"../config/crd/bases"}}
//	config, err := testEnv.Start()
//	…
//	err = testEnv.Stop()
//
// The control plane runs inside the test's own process and keeps everything in memory. There are no binaries to
// download: fields and variables that say where they are, among them KUBEBUILDER_ASSETS, are accepted and mean nothing,
// except to [KubeCtl].
//
// As with kube-apiserver and etcd alone, no control loop runs: namespaces that are deleted stay Terminating, dependents
// stay when their owner goes, and nobody makes pods of a Deployment. [Environment.Loops] turns any of that on.
//
// What is guaranteed: when Start returns without an error the API answers, and the given definitions of custom
// resources are served; when Stop returns no goroutine, port or file of the environment is left. Environments share
// nothing.
//
// Environment variables with the same meaning as there: USE_EXISTING_CLUSTER, KUBEBUILDER_CONTROLPLANE_START_TIMEOUT,
// KUBEBUILDER_CONTROLPLANE_STOP_TIMEOUT, KUBEBUILDER_ATTACH_CONTROL_PLANE_OUTPUT and, for kubectl, TEST_ASSET_KUBECTL.
package envtest
