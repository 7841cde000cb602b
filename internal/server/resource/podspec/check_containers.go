package podspec

import (
	corev1 "k8s.io/api/core/v1"
)

func (x *examiner) containers(p fieldPath) {
	list := p.child("containers")
	if len(x.spec.Containers) == 0 {
		x.required(list, "")
		return
	}
	var names seen[string]
	for i := range x.spec.Containers {
		c := &x.spec.Containers[i]
		item := list.item(i)
		x.container(item, c)
		if !names.add(c.Name) {
			x.duplicate(item.child("name"), c.Name)
		}
		x.lifecycle(item, c.Lifecycle)
		x.probes(item, c)
		x.containerRestarts(item, c)
		x.restartRules(item, c.RestartPolicyRules)
	}
	x.hostPorts(list, x.spec.Containers)
}

// container validates what is the same for every kind of container.
func (x *examiner) container(p fieldPath, c *corev1.Container) {
	if x.requireText(p, "name", c.Name) {
		x.invalidAll(p.child("name"), c.Name, label(c.Name))
	}
	x.requireText(p, "image", c.Image)
	policy := p.child("terminationMessagePolicy")
	if c.TerminationMessagePolicy == "" {
		x.required(policy, "")
	} else {
		oneOf(&x.findings, policy, c.TerminationMessagePolicy, corev1.TerminationMessageReadFile, corev1.TerminationMessageFallbackToLogsOnError)
	}
	x.ports(p, c.Ports)
	x.env(p, c.Env)
	x.filesOfVolumes(p, c.Env)
	x.envFrom(p, c.EnvFrom)
	x.mounts(p, c)
	x.devices(p, c)
	x.pullPolicy(p, "imagePullPolicy", c.ImagePullPolicy)
	x.resources(p, &c.Resources)
	x.resizePolicy(p, c.ResizePolicy)
	x.security(p, c.SecurityContext)
}

func (x *examiner) pullPolicy(p fieldPath, name string, policy corev1.PullPolicy) {
	switch policy {
	case corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever:
		return
	}
	c := p.child(name)
	if policy == "" {
		x.required(c, "")
		return
	}
	oneOf(&x.findings, c, policy, corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever)
}

const (
	maxRestartRules = 20
	maxExitCodes    = 255
)

// containerRestarts validates a container's own restart policy.
func (x *examiner) containerRestarts(p fieldPath, c *corev1.Container) {
	if c.RestartPolicy == nil && len(c.RestartPolicyRules) == 0 {
		return
	}
	policy := p.child("restartPolicy")
	if c.RestartPolicy == nil {
		x.required(policy, "must specify restartPolicy when restart rules are used")
	} else {
		oneOf(&x.findings, policy, *c.RestartPolicy, corev1.ContainerRestartPolicyAlways, corev1.ContainerRestartPolicyNever, corev1.ContainerRestartPolicyOnFailure)
	}
}

func (x *examiner) restartRules(p fieldPath, rules []corev1.ContainerRestartRule) {
	if len(rules) == 0 {
		return
	}
	list := p.child("restartPolicyRules")
	x.atMost(list, len(rules), maxRestartRules)
	for i := range rules {
		x.restartRule(list.item(i), &rules[i])
	}
}

func (x *examiner) restartRule(p fieldPath, r *corev1.ContainerRestartRule) {
	oneOf(&x.findings, p.child("action"), r.Action, corev1.ContainerRestartRuleActionRestart, corev1.ContainerRestartRuleActionRestartAllContainers)
	codes := p.child("exitCodes")
	if r.ExitCodes == nil {
		x.required(codes, "must be specified")
		return
	}
	oneOf(&x.findings, codes.child("operator"), r.ExitCodes.Operator, corev1.ContainerRestartRuleOnExitCodesOpIn, corev1.ContainerRestartRuleOnExitCodesOpNotIn)
	x.atMost(codes.child("values"), len(r.ExitCodes.Values), maxExitCodes)
}

func isSidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

const onlyForSidecars = "may not be set for init containers without restartPolicy=Always"

func (x *examiner) initContainers(p fieldPath) {
	if len(x.spec.InitContainers) == 0 {
		return
	}
	var names seen[string]
	for i := range x.spec.Containers {
		names.add(x.spec.Containers[i].Name)
	}
	list := p.child("initContainers")
	for i := range x.spec.InitContainers {
		c := &x.spec.InitContainers[i]
		item := list.item(i)
		x.container(item, c)
		x.containerRestarts(item, c)
		if c.RestartPolicy != nil {
			x.restartRules(item, c.RestartPolicyRules)
		}
		if c.Name != "" && !names.add(c.Name) {
			x.duplicate(item.child("name"), c.Name)
		}
		x.hostPorts(list, x.spec.InitContainers[i:i+1])
		if isSidecar(c) {
			x.lifecycle(item, c.Lifecycle)
			x.probes(item, c)
			continue
		}
		for _, f := range [...]struct {
			name string
			set  bool
		}{
			{"lifecycle", c.Lifecycle != nil}, {"livenessProbe", c.LivenessProbe != nil},
			{"readinessProbe", c.ReadinessProbe != nil}, {"startupProbe", c.StartupProbe != nil},
		} {
			if f.set {
				x.forbidden(item.child(f.name), onlyForSidecars)
			}
		}
	}
}

func (x *examiner) ephemeralContainers(p fieldPath) {
	if len(x.spec.EphemeralContainers) == 0 {
		return
	}
	var names, others seen[string]
	for i := range x.spec.Containers {
		others.add(x.spec.Containers[i].Name)
	}
	for i := range x.spec.InitContainers {
		others.add(x.spec.InitContainers[i].Name)
	}
	list := p.child("ephemeralContainers")
	for i := range x.spec.EphemeralContainers {
		e := &x.spec.EphemeralContainers[i]
		item := list.item(i)
		x.container(item, (*corev1.Container)(&e.EphemeralContainerCommon))
		if others.has(e.Name) || !names.add(e.Name) {
			x.duplicate(item.child("name"), e.Name)
		}
		if t := e.TargetContainerName; t != "" && !others.has(t) {
			x.notFound(item.child("targetContainerName"), t)
		}
		x.onlyForLasting(item, e)
	}
}

const notForEphemeral = "cannot be set for an Ephemeral Container"

// onlyForLasting refuses fields that an ephemeral container must not have.
func (x *examiner) onlyForLasting(p fieldPath, e *corev1.EphemeralContainer) {
	for _, f := range [...]struct {
		name string
		set  bool
	}{
		{"ports", e.Ports != nil},
		{"resources", e.Resources.Limits != nil || e.Resources.Requests != nil || e.Resources.Claims != nil},
		{"resizePolicy", e.ResizePolicy != nil}, {"restartPolicy", e.RestartPolicy != nil},
		{"restartPolicyRules", e.RestartPolicyRules != nil},
		{"livenessProbe", e.LivenessProbe != nil}, {"readinessProbe", e.ReadinessProbe != nil},
		{"startupProbe", e.StartupProbe != nil}, {"lifecycle", e.Lifecycle != nil},
	} {
		if f.set {
			x.forbidden(p.child(f.name), notForEphemeral)
		}
	}
	mounts := p.child("volumeMounts")
	for i := range e.VolumeMounts {
		item := mounts.item(i)
		if e.VolumeMounts[i].SubPath != "" {
			x.forbidden(item.child("subPath"), notForEphemeral)
		}
		if e.VolumeMounts[i].SubPathExpr != "" {
			x.forbidden(item.child("subPathExpr"), notForEphemeral)
		}
	}
}
