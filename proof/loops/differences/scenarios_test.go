package differences_test

import (
	"fmt"
	"slices"
	"strings"
)

// scenarios are all of them. Their order decides the names of their namespaces.
func scenarios() []scenario {
	return slices.Concat(deploymentScenarios(), setScenarios(), statefulScenarios(), daemonScenarios(), jobScenarios(), cronScenarios(), serviceScenarios(), budgetScenarios(), autoscaleScenarios(),
		volumeScenarios(), quotaScenarios(), namespaceScenarios(), garbageScenarios(), accountScenarios(), claimScenarios(), certificateScenarios(), nodeScenarios(), schedulerScenarios(), clockScenarios(), keptScenarios())
}

// story is a scenario on the nodes that all share.
func story(name string, steps ...step) scenario { return scenario{name: name, steps: steps} }

// template is a pod template in YAML: its label app, annotations for the hollow kubelet, and a spec. Without a spec it
// has one container.
func template(app, annotations, spec string) string {
	if spec == "" {
		spec = oneContainer
	}
	var hollow []string
	for one := range strings.FieldsSeq(annotations) {
		key, value, _ := strings.Cut(one, "=")
		hollow = append(hollow, fmt.Sprintf("hollow.millrace.dev/%s: %q", key, value))
	}
	return fmt.Sprintf("{metadata: {labels: {app: %s}, annotations: {%s}}, spec: {%s}}", app, strings.Join(hollow, ", "), spec)
}

const (
	oneContainer = "containers: [{name: main, image: 'web:1'}]"
	probed       = "containers: [{name: main, image: 'web:1', readinessProbe: {periodSeconds: 1, exec: {command: [x]}}}]"
	never        = "restartPolicy: Never, " + oneContainer
)

// workload is the body of an object with a selector and a template.
func workload(app string, replicas int, more, podTemplate string) string {
	return fmt.Sprintf("spec: {replicas: %d, selector: {matchLabels: {app: %s}}, template: %s%s}", replicas, app, podTemplate, also(more))
}

// also continues a list of fields.
func also(more string) string {
	if more == "" {
		return ""
	}
	return ", " + more
}

// image changes the image of a template.
func image(path, image string) request {
	return strategic(path, "spec: {template: {spec: {containers: [{name: main, image: '"+image+"'}]}}}")
}

func spec(path, fields string) request { return patch(path, "spec: {"+fields+"}") }

// pod creates a pod.
func pod(name, labels, annotations, spec string) request {
	if spec == "" {
		spec = oneContainer
	}
	var hollow []string
	for one := range strings.FieldsSeq(annotations) {
		key, value, _ := strings.Cut(one, "=")
		hollow = append(hollow, fmt.Sprintf("hollow.millrace.dev/%s: %q", key, value))
	}
	return createFull("pods", fmt.Sprintf("metadata: {name: %s, labels: {%s}, annotations: {%s}}\nspec: {%s}", name, labels, strings.Join(hollow, ", "), spec))
}

const (
	orphan     = "propagationPolicy: Orphan"
	foreground = "propagationPolicy: Foreground"
	background = "propagationPolicy: Background"
)
