package differences_test

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// names replaces names that differ from run to run.
type names struct {
	ns string
	// hashes are the hashes of templates, and what they are called: by their owner's objects, in order.
	hashes map[string]string
	count  map[string]int
}

var (
	times     = regexp.MustCompile(`\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?( ?Z|[+-]\d\d:\d\d| \+0000 UTC)?`)
	uuids     = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	addresses = regexp.MustCompile(`\b\d+\.\d+\.\d+\.\d+(/\d+)?\b`)
	hashes    = regexp.MustCompile(`-[bcdfghjklmnpqrstvwxz2456789]{7,10}\b`)
	suffixes  = regexp.MustCompile(`-[bcdfghjklmnpqrstvwxz2456789]{5}\b`)
	minutes   = regexp.MustCompile(`-\d{8}\b`)
	hollow    = regexp.MustCompile(`hollow-\d+\b`)
	pems      = regexp.MustCompile(`(?s)-----BEGIN CERTIFICATE-----.*`)
)

// text replaces names in a text.
func (n *names) text(s string) string {
	s = strings.ReplaceAll(s, n.ns, "NS")
	for hash, called := range n.hashes {
		s = strings.ReplaceAll(s, hash, called)
	}
	s = minutes.ReplaceAllString(uuids.ReplaceAllString(times.ReplaceAllString(s, "TIME"), "UUID"), "-MINUTE")
	s = suffixes.ReplaceAllString(hashes.ReplaceAllString(addresses.ReplaceAllString(s, "ADDRESS"), "-HASH"), "-#")
	return pems.ReplaceAllString(hollow.ReplaceAllString(s, "NODE"), "CERTIFICATE")
}

// learn gives names to hashes: the first template of web is h1 of web.
func (n *names) learn(sets, revisions []node) {
	slices.SortFunc(sets, func(a, b node) int {
		return cmp.Or(strings.Compare(revisionOf(a), revisionOf(b)), strings.Compare(nameOf(a), nameOf(b)))
	})
	slices.SortFunc(revisions, func(a, b node) int {
		first, _ := a["revision"].(float64)
		second, _ := b["revision"].(float64)
		return cmp.Or(cmp.Compare(first, second), strings.Compare(nameOf(a), nameOf(b)))
	})
	for _, o := range slices.Concat(sets, revisions) {
		at := strings.LastIndexByte(nameOf(o), '-')
		if at < 0 || !hashes.MatchString(nameOf(o)[at:]) {
			continue
		}
		owner, hash := nameOf(o)[:at], nameOf(o)[at+1:]
		if n.hashes[hash] == "" {
			n.count[owner]++
			n.hashes[hash] = fmt.Sprint("h", n.count[owner])
		}
	}
}

// revisionOf returns the revision of a replica set in a form that can be ordered.
func revisionOf(o node) string {
	text, _ := dig(o, "metadata", "annotations", "deployment.kubernetes.io/revision").(string)
	return fmt.Sprintf("%9s", text)
}

// dropped are fields of metadata that differ between runs, or say nothing.
var dropped = []string{"uid", "resourceVersion", "creationTimestamp", "namespace", "selfLink", "name", "generateName"}

// object removes from an object what differs between two runs, and what is not the work of loops.
func (n *names) object(resource string, o node) node {
	delete(o, "kind")
	delete(o, "apiVersion")
	meta, _ := o["metadata"].(node)
	for _, name := range dropped {
		delete(meta, name)
	}
	meta["managedFields"] = writers(meta["managedFields"])
	switch resource {
	case "pods":
		shortenPod(o)
	case "endpointslices":
		delete(meta, "generation") // pods become ready one by one, or together
	case "persistentvolumes":
		if claim, ok := dig(o, "spec", "claimRef").(node); ok {
			delete(claim, "resourceVersion")
		}
	case "nodes":
		o["status"] = node{"conditions": conditions(dig(o, "status", "conditions"), "message")}
	case "secrets":
		if data, ok := o["data"].(node); ok {
			for name := range data {
				data[name] = "DATA"
			}
		}
	case "certificatesigningrequests":
		asked, _ := o["spec"].(node)
		for _, name := range []string{"request", "username", "groups", "extra", "uid"} {
			delete(asked, name) // each side has its own administrator
		}
		if status, ok := o["status"].(node); ok && status["certificate"] != nil {
			status["certificate"] = "CERTIFICATE"
		}
	}
	return n.clean("", o).(node)
}

// writers are those who own fields: who, how, and of which part.
func writers(all any) any {
	list, _ := all.([]any)
	var out []any
	for _, one := range list {
		text := fmt.Sprintf("%v %v %v", dig(one, "manager"), dig(one, "operation"), cmp.Or(dig(one, "subresource"), any("")))
		if !slices.Contains(out, any(text)) {
			out = append(out, text)
		}
	}
	sorted(out)
	return out
}

// shortenPod leaves of a pod what is not the kubelet's, and of that what loops react to.
func shortenPod(o node) {
	status, _ := o["status"].(node)
	short := node{}
	for _, name := range []string{"phase", "reason", "message", "nominatedNodeName", "resourceClaimStatuses"} {
		if v := status[name]; v != nil {
			short[name] = v
		}
	}
	short["conditions"] = conditions(status["conditions"])
	var ended []any
	list, _ := status["containerStatuses"].([]any)
	for _, c := range list {
		if code := dig(c, "state", "terminated", "exitCode"); code != nil {
			ended = append(ended, code)
		}
	}
	if ended != nil {
		short["exitCodes"] = ended
	}
	o["status"] = short
}

// conditions are conditions by their type, without some fields.
func conditions(all any, without ...string) any {
	list, _ := all.([]any)
	out := node{}
	for _, c := range list {
		condition, _ := c.(node)
		for _, name := range append(without, "lastProbeTime", "lastTransitionTime", "lastHeartbeatTime", "lastUpdateTime") {
			delete(condition, name)
		}
		out[fmt.Sprint(condition["type"])] = condition
		delete(condition, "type")
	}
	return out
}

// unordered are lists without an order.
var unordered = []string{"endpoints", "addresses", "notReadyAddresses", "succeeded", "failed", "finalizers", "active", "ports", "subsets", "taints"}

// clean replaces what differs between runs in a tree. name is the last field of its path.
func (n *names) clean(name string, v any) any {
	switch v := v.(type) {
	case node:
		out := node{}
		for key, inner := range v {
			if key == "conditions" {
				if _, list := inner.([]any); list {
					inner = conditions(inner)
				}
			}
			out[n.text(key)] = n.clean(key, inner)
		}
		return out
	case []any:
		for i := range v {
			v[i] = n.clean(name, v[i])
		}
		if slices.Contains(unordered, name) {
			sorted(v)
		}
		return v
	case string:
		return n.text(v)
	case float64:
		if name == "nodePort" || name == "healthCheckNodePort" {
			return "PORT"
		}
	}
	return v
}

func sorted(list []any) {
	slices.SortFunc(list, func(a, b any) int { return strings.Compare(jsonOf(a), jsonOf(b)) })
}
