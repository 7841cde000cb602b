// Package config reads a KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1), kube-scheduler's file for
// --config, and makes scheduler profiles of it.
//
// Guarantees: unknown fields, values that kube-scheduler refuses and unknown plugins are errors, in kube-scheduler's
// words. Missing fields have its defaults. Plugins are enabled and disabled at each extension point as in
// kube-scheduler.
//
// Some fields are checked and not used: parallelism and percentageOfNodesToScore (all nodes are always compared), the
// client's accepted content types and its default rates (requests are only limited if the file says a rate), and
// extension points at which a plugin does nothing separately (a rule that filters also does the work of PreFilter, and
// a rule that reserves that of PreBind).
package config
