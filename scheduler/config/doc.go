// Package config reads a KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1), the file that kube-scheduler is given with
// --config, and makes scheduler profiles of it.
//
// What it guarantees: fields that are not known, values that kube-scheduler refuses and plugins that there are none of are
// errors, in its words; what is left out has its defaults; plugins are enabled and disabled at each extension point as it does.
//
// What has no meaning here is checked and not used: parallelism and percentageOfNodesToScore (all nodes are always
// compared), the client's content types and rates (nothing is held back), and extension points of which a plugin has no part of
// its own (a rule that filters looks at a pod before that, and reserves and prepares what it has found).
package config
