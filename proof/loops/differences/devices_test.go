package differences_test

import (
	"fmt"
	"strings"
	"time"
)

// claiming makes a pod that uses a claim, and fromTemplate one that has its own.
func claiming(name, labels, annotations, more string) request {
	return withDevices(name, labels, annotations, "resourceClaimName: gpu", more)
}

func fromTemplate(name, labels, annotations, more string) request {
	return withDevices(name, labels, annotations, "resourceClaimTemplateName: gpu", more)
}

func withDevices(name, labels, annotations, source, more string) request {
	return pod(name, labels, annotations, "resourceClaims: [{name: gpu, "+source+"}], containers: [{name: main, image: 'web:1', resources: {claims: [{name: gpu}]}}]"+also(more))
}

// devices makes a claim of that name, and devicesTemplate a template for claims.
func devices(name, text string) request {
	return createFull("resourceclaims", "metadata: {name: "+name+"}\nspec: {devices: {"+text+"}}")
}

func devicesTemplate(text string) request {
	return createFull("resourceclaimtemplates", "metadata: {name: gpu}\nspec: {metadata: {labels: {x: y}}, spec: {devices: {"+text+"}}}")
}

// exactly is a request, and model one of several alternatives: a device of a model.
func exactly(name, more string) string {
	return "{name: " + name + ", exactly: {deviceClassName: '{NS}-gpu'" + also(more) + "}}"
}

func model(name string) string {
	return "{name: " + name + ", deviceClassName: '{NS}-gpu', selectors: [" + ofModel(name) + "]}"
}

func ofModel(name string) string {
	return "{cel: {expression: \"device.attributes['{NS}.example.com'].model == '" + name + "'\"}}"
}

// card is a device of a model, and cards are a slice of devices.
func card(name, model, more string) string {
	return "{name: " + name + ", attributes: {model: {string: " + model + "}}" + also(more) + "}"
}

func cards(name, where, more string, devices ...string) request {
	return createFull("resourceslices", "metadata: {name: '{NS}-"+name+"'}\nspec: {driver: '{NS}.example.com', pool: {name: '{NS}-"+name+"', generation: 1, resourceSliceCount: 1}, "+where+also(more)+", devices: ["+strings.Join(devices, ", ")+"]}")
}

// graphics is a class, for all devices of the scenario.
func graphics(more string) request {
	return createFull("deviceclasses", "metadata: {name: '{NS}-gpu'}\nspec: {selectors: [{cel: {expression: \"device.driver == '{NS}.example.com'\"}}]"+also(more)+"}")
}

func claimScenarios() []scenario {
	const slow = 6 * time.Second
	one := "requests: [" + exactly("gpu", "") + "]"
	two := createFull("resourceslices", "metadata: {name: '{NS}-slice'}\nspec: {driver: '{NS}.example.com', pool: {name: '{NS}', generation: 1, resourceSliceCount: 1}, allNodes: true, devices: [{name: gpu-a}, {name: gpu-b}]}")
	mine, tmpl := devices("gpu", one), devicesTemplate(one)
	both := cards("slice", "allNodes: true", "", card("gpu-a", "small", ""), card("gpu-b", "large", ""))
	either := "requests: [{name: gpu, firstAvailable: [" + model("large") + ", " + model("small") + "]}]"
	onNode := func(node string, devices ...string) request {
		return cards("of-"+node, "nodeName: '{NS}-"+node+"'", "", devices...)
	}
	by := func(node string) string { return "nodeSelector: {kubernetes.io/hostname: " + node + "}" }
	tainted := func(effect string) string {
		return "taints: [{key: broken, value: 'yes', effect: " + effect + "}]"
	}
	var out []scenario
	for _, effect := range []string{"NoSchedule", "NoExecute"} {
		taint := patch("resourceslices/{NS}-slice", "spec: {devices: ["+card("gpu-a", "small", tainted(effect))+"]}")
		out = append(out, story("device claim, device tainted "+effect, do(graphics(""), cards("slice", "allNodes: true", "", card("gpu-a", "small", "")), tmpl), do(fromTemplate("one", "a: b", "", "")), do(taint).settling(slow),
			do(fromTemplate("two", "a: b", "", "")), do(devices("tolerant", "requests: ["+exactly("gpu", "tolerations: [{key: broken, operator: Exists, effect: "+effect+"}]")+"]"), withDevices("three", "a: b", "", "resourceClaimName: tolerant", ""), remove("pods/one", "gracePeriodSeconds: 0")).settling(slow)))
	}
	return append(out,
		story("device claim, from a template", do(tmpl), do(fromTemplate("one", "a: b", "", "")), do(remove("pods/one", ""))),
		story("device claim, template that is not there", do(fromTemplate("one", "a: b", "", "")), do(tmpl).settling(20*time.Second)),
		story("device claim, that is not there", do(claiming("one", "a: b", "", "")), do(mine)),
		story("device claim, allocated", do(graphics(""), two, tmpl), do(fromTemplate("one", "a: b", "", ""), fromTemplate("two", "a: b", "", "")), do(fromTemplate("three", "a: b", "", "")), do(remove("pods/one", "gracePeriodSeconds: 0")).settling(slow)),
		story("device claim, shared", do(graphics(""), two, mine), do(claiming("one", "a: b", "", "")), do(claiming("two", "a: b", "", "")), do(remove("pods/one", "gracePeriodSeconds: 0")), do(remove("pods/two", "gracePeriodSeconds: 0")).settling(5*time.Second)),
		story("device claim, of a pod that ends", do(graphics(""), two, tmpl), do(fromTemplate("one", "a: b", "run-for=2s", "restartPolicy: Never")).settling(8*time.Second)),
		story("device claim, deleted in use", do(graphics(""), two, mine), do(claiming("one", "a: b", "", "")), do(remove("resourceclaims/gpu", "")), do(remove("pods/one", "gracePeriodSeconds: 0")).settling(5*time.Second)),
		story("device claim, no class", do(mine), do(claiming("one", "a: b", "", "")), do(graphics(""))),
		story("device claim, too many", do(graphics(""), two, devices("gpu", "requests: ["+exactly("gpu", "count: 3")+"]")), do(claiming("one", "a: b", "", ""))),
		story("device claim, first available", do(graphics(""), both, devicesTemplate(either)), do(fromTemplate("one", "a: b", "", "")), do(fromTemplate("two", "a: b", "", "")), do(fromTemplate("three", "a: b", "", "")), do(remove("pods/one", "gracePeriodSeconds: 0")).settling(slow)),
		story("device claim, all devices", do(graphics(""), both, devices("gpu", "requests: ["+exactly("gpu", "allocationMode: All")+"]")), do(claiming("one", "a: b", "", "")), do(devices("other", one), withDevices("two", "a: b", "", "resourceClaimName: other", "")), do(remove("pods/one", "gracePeriodSeconds: 0")).settling(slow)),
		story("device claim, selector", do(graphics(""), both, devices("gpu", "requests: ["+exactly("gpu", "selectors: ["+ofModel("large")+"]")+"]")), do(claiming("one", "a: b", "", ""))),
		story("device claim, selector that fails", do(graphics(""), two, devices("gpu", "requests: ["+exactly("gpu", "selectors: ["+ofModel("large")+"]")+"]")), do(claiming("one", "a: b", "", ""))),
		story("device claim, constraint", do(graphics(""), cards("slice", "allNodes: true", "", card("gpu-a", "small", ""), card("gpu-b", "large", ""), card("gpu-c", "large", "")),
			devices("gpu", "requests: ["+exactly("one", "")+", "+exactly("two", "")+"], constraints: [{matchAttribute: '{NS}.example.com/model'}]")), do(claiming("one", "a: b", "", ""))),
		story("device claim, configured", do(graphics("config: [{opaque: {driver: '{NS}.example.com', parameters: {of: class}}}]"), two, devices("gpu", one+", config: [{requests: [gpu], opaque: {driver: '{NS}.example.com', parameters: {of: claim}}}]")), do(claiming("one", "a: b", "", ""))),
		story("device claim, capacity shared", do(graphics(""), cards("slice", "allNodes: true", "", card("gpu-a", "small", "allowMultipleAllocations: true, capacity: {memory: {value: 10Gi}}")),
			devicesTemplate("requests: ["+exactly("gpu", "capacity: {requests: {memory: 4Gi}}")+"]")), do(fromTemplate("one", "a: b", "", ""), fromTemplate("two", "a: b", "", "")), do(fromTemplate("three", "a: b", "", ""))),
		story("device claim, devices come", do(graphics(""), mine), do(claiming("one", "a: b", "", "")), do(both)),
		alone("device claim, pool incomplete", do(machine("a", "", ""), graphics(""), mine, createFull("resourceslices", "metadata: {name: '{NS}-slice'}\nspec: {driver: '{NS}.example.com', pool: {name: '{NS}', generation: 1, resourceSliceCount: 2}, allNodes: true, devices: [{name: gpu-a}]}")), do(claiming("one", "a: b", "", "")),
			do(createFull("resourceslices", "metadata: {name: '{NS}-other'}\nspec: {driver: '{NS}.example.com', pool: {name: '{NS}', generation: 1, resourceSliceCount: 2}, allNodes: true, devices: [{name: gpu-b}]}"))),
		story("device claim, two of a pod", do(graphics(""), two, mine, devices("other", one)), do(pod("one", "a: b", "", "resourceClaims: [{name: a, resourceClaimName: gpu}, {name: b, resourceClaimName: other}], containers: [{name: main, image: 'web:1', resources: {claims: [{name: a}, {name: b, request: gpu}]}}]")), do(remove("pods/one", "gracePeriodSeconds: 0")).settling(slow)),
		story("device claim, of a deployment", do(graphics(""), two, tmpl), do(create("deployments", "web", workload("web", 2, "strategy: {type: Recreate}", template("web", "", "resourceClaims: [{name: gpu, resourceClaimTemplateName: gpu}], containers: [{name: main, image: 'web:1', resources: {claims: [{name: gpu}]}}]")))), do(spec("deployments/web", "replicas: 3")), do(remove("deployments/web", background)).settling(slow)),
		story("device claim, administrative", do(graphics(""), two, mine), do(claiming("one", "a: b", "", "")), do(patch("namespaces/{NS}", "metadata: {labels: {resource.kubernetes.io/admin-access: 'true'}}"), devices("all", "requests: ["+exactly("gpu", "allocationMode: All, adminAccess: true")+"]")), do(withDevices("two", "a: b", "", "resourceClaimName: all", ""))),
		story("device claim, for an extended resource", do(graphics("extendedResourceName: "+"'{NS}.example.com/gpu'"), two), do(pod("one", "a: b", "", "containers: [{name: main, image: 'web:1', resources: {limits: {'{NS}.example.com/gpu': 1}}}]")), do(remove("pods/one", "gracePeriodSeconds: 0")).settling(slow)),
		alone("device claim, of one node", do(machine("a", "", ""), machine("b", "", ""), graphics(""), onNode("a", card("gpu-a", "small", "")), mine), do(claiming("one", "a: b", "", "")), do(claiming("two", "a: b", "", by("b"))), do(remove("pods/one", "gracePeriodSeconds: 0")).settling(slow)),
		alone("device claim, elsewhere and free again", do(machine("a", "", ""), machine("b", "", ""), graphics(""), onNode("a", card("gpu-a", "small", "")), onNode("b", card("gpu-b", "small", "")), mine), do(claiming("one", "a: b", "", by("a"))), do(patch("nodes/{NS}-a", "spec: {unschedulable: true}"), claiming("two", "a: b", "", "")), do(remove("pods/one", "gracePeriodSeconds: 0")).settling(slow)),
		alone("device claim, best node", do(machine("a", "", ""), machine("b", "", ""), graphics(""), onNode("a", card("gpu-a", "small", "")), onNode("b", card("gpu-b", "large", "")), devicesTemplate(either)), do(pod("there", "app: there", "", fmt.Sprintf("%s, containers: [{name: main, image: x, resources: {requests: {cpu: 200m}}}]", by("b")))),
			do(fromTemplate("one", "a: b", "", "")), do(fromTemplate("two", "a: b", "", ""))),
	)
}
