package podspec

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// causes validates a spec given as JSON, in which $C stands for a valid container.
func causes(t *testing.T, spec string) []string {
	t.Helper()
	p := &corev1.Pod{}
	p.Name, p.Namespace = "p", "n"
	if err := json.Unmarshal([]byte(spec), &p.Spec); err != nil {
		t.Fatalf("%s: %v", spec, err)
	}
	if p.Spec.Containers == nil {
		p.Spec.Containers = []corev1.Container{{Name: "main", Image: "app:1"}}
	}
	Default(p)
	return texts(append(Validate(p, Options{}), ValidateCreate(p)...))
}

func texts(errs field.ErrorList) []string {
	var out []string
	for _, e := range errs {
		out = append(out, fmt.Sprintf("%s: %s", e.Field, e.ErrorBody()))
	}
	return out
}

func inContainer(rest string) string {
	return `{"containers": [{"name": "main", "image": "app:1", ` + rest + `}]}`
}

func TestSpecsAreRefusedInKubernetesWords(t *testing.T) {
	for spec, want := range map[string][]string{
		`{}`: nil,
		`{"containers": [{"name": "a", "image": "x"}, {"name": "a", "image": "x"}]}`:                                                  {`spec.containers[1].name: Duplicate value: "a"`},
		`{"initContainers": [{"name": "main", "image": "x"}]}`:                                                                        {`spec.initContainers[0].name: Duplicate value: "main"`},
		`{"initContainers": [{"name": "i", "image": "x", "lifecycle": {"preStop": {"sleep": {"seconds": 1}}}}]}`:                      {`spec.initContainers[0].lifecycle: Forbidden: may not be set for init containers without restartPolicy=Always`},
		`{"initContainers": [{"name": "i", "image": "x", "restartPolicy": "Always", "livenessProbe": {"exec": {"command": ["x"]}}}]}`: nil,
		`{"ephemeralContainers": [{"name": "e", "image": "x"}]}`:                                                                      {`spec.ephemeralContainers: Forbidden: cannot be set on create`},
		`{"nodeName": "n", "schedulingGates": [{"name": "a"}]}`:                                                                       {`spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared`},
		`{"dnsPolicy": "Sometimes"}`:                                                    {`spec.dnsPolicy: Unsupported value: "Sometimes": supported values: "ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"`},
		`{"dnsPolicy": "None", "dnsConfig": {}}`:                                        {"spec.dnsConfig.nameservers: Required value: must provide at least one DNS nameserver when `dnsPolicy` is None"},
		`{"dnsConfig": {"nameservers": ["x"]}}`:                                         {`spec.dnsConfig.nameservers[0]: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)`},
		`{"hostname": "A"}`:                                                             {`spec.hostname: Invalid value: "A": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')`},
		`{"hostAliases": [{"ip": "a", "hostnames": ["b"]}]}`:                            {`spec.hostAliases[0].ip: Invalid value: "a": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)`},
		`{"preemptionPolicy": "Often"}`:                                                 {`spec.preemptionPolicy: Unsupported value: "Often": supported values: "PreemptLowerPriority", "Never"`},
		`{"os": {"name": "plan9"}}`:                                                     {`spec.os: Unsupported value: "plan9": supported values: "linux", "windows"`},
		`{"hostPID": true, "shareProcessNamespace": true}`:                              {`spec.securityContext.shareProcessNamespace: Invalid value: true: ShareProcessNamespace and HostPID cannot both be enabled`},
		`{"securityContext": {"runAsUser": -1}}`:                                        {`spec.securityContext.runAsUser: Invalid value: -1: must be between 0 and 2147483647, inclusive`},
		`{"securityContext": {"sysctls": [{"name": "A"}]}}`:                             {`spec.securityContext.sysctls[0].name: Invalid value: "A": must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$`},
		`{"securityContext": {"seccompProfile": {"type": "Localhost"}}}`:                {`spec.securityContext.seccompProfile.localhostProfile: Required value: must be set when seccomp type is Localhost`},
		`{"securityContext": {"fsGroupChangePolicy": "Now"}}`:                           {`spec.securityContext.fsGroupChangePolicy: Unsupported value: "Now": supported values: "Always", "OnRootMismatch"`},
		`{"tolerations": [{"key": "a", "operator": "Exists", "tolerationSeconds": 3}]}`: {"spec.tolerations[0].effect: Invalid value: \"\": effect must be 'NoExecute' when `tolerationSeconds` is set"},
		`{"tolerations": [{"operator": "Equal"}]}`:                                      {"spec.tolerations[0].operator: Invalid value: \"Equal\": operator must be Exists when `key` is empty, which means \"match all values and all keys\""},
		`{"topologySpreadConstraints": [{"maxSkew": 0, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}]}`:                                                                            {`spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero`},
		`{"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}, {"maxSkew": 2, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}]}`:  {`spec.topologySpreadConstraints[0].{topologyKey, whenUnsatisfiable}: Duplicate value: "{z, DoNotSchedule}"`},
		`{"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}}`:                                                                        {`spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms: Required value: must have at least one node selector term`},
		`{"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": [{"key": "spec.x", "operator": "In", "values": ["a"]}]}]}}}}`: {`spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchFields[0].key: Invalid value: "spec.x": not a valid field selector key`},
		`{"resourceClaims": [{"name": "a"}]}`:                                                                                 {"spec.resourceClaims[0]: Invalid value: {\"Name\":\"a\",\"ResourceClaimName\":null,\"ResourceClaimTemplateName\":null}: must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"},
		`{"volumes": [{"name": "a", "secret": {}}]}`:                                                                          {`spec.volumes[0].secret.secretName: Required value`},
		`{"volumes": [{"name": "a"}, {"name": "a"}]}`:                                                                         {`spec.volumes[1].name: Duplicate value: "a"`},
		`{"volumes": [{"name": "a", "hostPath": {"path": "/a/../b"}}]}`:                                                       {`spec.volumes[0].hostPath.path: Invalid value: "/a/../b": must not contain '..'`},
		`{"volumes": [{"name": "a", "nfs": {"server": "s", "path": "p"}}]}`:                                                   {`spec.volumes[0].nfs.path: Invalid value: "p": must be an absolute path`},
		`{"volumes": [{"name": "a", "configMap": {"name": "m", "defaultMode": 512, "items": [{"key": "k", "path": "/x"}]}}]}`: {`spec.volumes[0].configMap.defaultMode: Invalid value: 512: must be a number between 0 and 0777 (octal), both inclusive`, `spec.volumes[0].configMap.items[0].path: Invalid value: "/x": must be a relative path`},
		`{"serviceAccountName": "s", "volumes": [{"name": "a", "projected": {"sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 5}}]}}]}`: {`spec.volumes[0].projected.sources[0].serviceAccountToken.expirationSeconds: Invalid value: 5: may not specify a duration less than 10 minutes`},
		`{"volumes": [{"name": "a", "ephemeral": {"volumeClaimTemplate": {"spec": {"resources": {"requests": {"storage": "1Gi"}}}}}}]}`:                       {`spec.volumes[0].ephemeral.volumeClaimTemplate.spec.accessModes: Required value: at least 1 access mode is required`},

		`{"schedulingGroup": {}}`: {"spec.schedulingGroup: Required value: must specify one of: `podGroupName`"},
		`{"schedulingGroup": {"podGroupName": "g"}, "evictionResponders": [{"name": "acme.io/a", "priority": 10000}]}`:            {"spec.evictionResponders: Forbidden: may not be specified when `schedulingGroup` is set"},
		`{"evictionResponders": [{"name": "acme.io/a", "priority": 10000}, {"name": "acme.io/a", "priority": 100001}]}`:           {`spec.evictionResponders[1].priority: Invalid value: 100001: must be less than or equal to 100000`, `spec.evictionResponders[1].name: Duplicate value: "acme.io/a"`},
		`{"evictionResponders": [{"name": "", "priority": -1}, {"name": "a.k8s.io/a", "priority": 2000}, {"name": "acme.io/b"}]}`: {`spec.evictionResponders[0].name: Required value`, `spec.evictionResponders[0].priority: Invalid value: -1: must be greater than or equal to 0`, `spec.evictionResponders[1].name: Invalid value: "a.k8s.io/a": domain names *.k8s.io and *.kubernetes.io are reserved`, `spec.evictionResponders[2].priority: Required value`},
		`{"volumes": [{"name": "a", "emptyDir": {"mode": 2000}}]}`:                                                                {`spec.volumes[0].emptyDir.mode: Invalid value: 2000: must be a number between 0 and 01777 (octal), both inclusive`},
		inContainer(`"livenessProbe": {"httpGet": {"port": 80, "scheme": "HTTPS", "protocol": "HTTP2"}}`):                         {`spec.containers[0].livenessProbe.httpGet.protocol: Invalid value: "HTTP2": may only be used with scheme HTTP`},
		inContainer(`"livenessProbe": {"grpc": {"port": 80, "mode": "mTLS"}}`):                                                    {`spec.containers[0].livenessProbe.grpc.mode: Unsupported value: "mTLS": supported values: "Plaintext", "TLS"`},

		inContainer(`"volumeMounts": [{"name": "x", "mountPath": "/x"}]`):                                                    {`spec.containers[0].volumeMounts[0].name: Not found: "x"`},
		inContainer(`"ports": [{"containerPort": 1, "name": "not_a_name"}]`):                                                 {`spec.containers[0].ports[0].name: Invalid value: "not_a_name": must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)`},
		inContainer(`"ports": [{"containerPort": 1, "hostPort": 9}, {"containerPort": 2, "hostPort": 9}]`):                   {`spec.containers[0].ports[1].hostPort: Duplicate value: "TCP//9"`},
		inContainer(`"env": [{"name": "A", "value": "x", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]`):        {"spec.containers[0].env[0].valueFrom: Invalid value: \"\": may not be specified when `value` is not empty"},
		inContainer(`"env": [{"name": "A", "valueFrom": {}}]`):                                                               {"spec.containers[0].env[0].valueFrom: Invalid value: \"\": must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"},
		inContainer(`"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['a']"}}}]`):              nil,
		inContainer(`"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "status.phase"}}}]`):                      {`spec.containers[0].env[0].valueFrom.fieldRef.fieldPath: Unsupported value: "status.phase": supported values: "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName", "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"`},
		inContainer(`"env": [{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "3"}}}]`): {`spec.containers[0].env[0].valueFrom.resourceFieldRef.divisor: Invalid value: "limits.cpu": only divisor's values 1m and 1 are supported with the cpu resource`},
		inContainer(`"resources": {"limits": {"cpu": "-1"}}`):                                                                {`spec.containers[0].resources.limits[cpu]: Invalid value: "-1": must be greater than or equal to 0`, `spec.containers[0].resources.requests[cpu]: Invalid value: "-1": must be greater than or equal to 0`},
		inContainer(`"resources": {"requests": {"example.com/gpu": "1"}}`):                                                   {`spec.containers[0].resources.limits: Required value: Limit must be set for non overcommitable resources`},
		inContainer(`"resources": {"limits": {"example.com/gpu": "1500m"}}`):                                                 {`spec.containers[0].resources.limits[example.com/gpu]: Invalid value: "1500m": must be an integer`, `spec.containers[0].resources.requests[example.com/gpu]: Invalid value: "1500m": must be an integer`},
		inContainer(`"resources": {"limits": {"hugepages-2Mi": "4Mi"}}`):                                                     {`spec.containers[0].resources: Forbidden: HugePages require cpu or memory`},
		inContainer(`"livenessProbe": {"exec": {"command": ["a"]}, "successThreshold": 2}`):                                  {`spec.containers[0].livenessProbe.successThreshold: Invalid value: 2: must be 1`},
		inContainer(`"readinessProbe": {"exec": {"command": ["a"]}, "terminationGracePeriodSeconds": 2}`):                    {`spec.containers[0].readinessProbe.terminationGracePeriodSeconds: Invalid value: 2: must not be set for readinessProbes`},
		inContainer(`"livenessProbe": {"httpGet": {"port": "no such name!", "scheme": "FTP"}}`):                              {`spec.containers[0].livenessProbe.httpGet.port: Invalid value: "no such name!": must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)`, `spec.containers[0].livenessProbe.httpGet.scheme: Unsupported value: "FTP": supported values: "HTTP", "HTTPS"`},
		inContainer(`"lifecycle": {"preStop": {"sleep": {"seconds": 31}}}`):                                                  {`spec.containers[0].lifecycle.preStop.sleep: Invalid value: 31: must be non-negative and less than terminationGracePeriodSeconds (30)`},
		inContainer(`"terminationMessagePolicy": "Log"`):                                                                     {`spec.containers[0].terminationMessagePolicy: Unsupported value: "Log": supported values: "File", "FallbackToLogsOnError"`},
		inContainer(`"securityContext": {"runAsGroup": -5}`):                                                                 {`spec.containers[0].securityContext.runAsGroup: Invalid value: -5: must be between 0 and 2147483647, inclusive`},
		inContainer(`"resizePolicy": [{"resourceName": "gpu", "restartPolicy": "NotRequired"}]`):                             {`spec.containers[0].resizePolicy: Unsupported value: "gpu": supported values: "cpu", "memory"`},
	} {
		if got := causes(t, spec); !slices.Equal(got, want) {
			t.Errorf("%s\nwant %q\ngot  %q", spec, want, got)
		}
	}
}

func TestTemplatesMayLeaveHostPortsToThePods(t *testing.T) {
	template := &corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		HostNetwork: true, Containers: []corev1.Container{{Name: "a", Image: "x", Ports: []corev1.ContainerPort{{ContainerPort: 80}}}},
	}}
	DefaultTemplate(template)
	path := field.NewPath("spec", "template")
	if errs := ValidateTemplate(template, path, Options{}); len(errs) > 0 {
		t.Error(errs)
	}
	template.Spec.Containers[0].Ports[0].HostPort = 81
	want := "spec.template.spec.containers[0].ports[0].hostPort: Invalid value: 81: must match `containerPort` when `hostNetwork` is true"
	if got := texts(ValidateTemplate(template, path, Options{})); !slices.Equal(got, []string{want}) {
		t.Errorf("got %q", got)
	}
}

func TestPrivilegeIsTheServersToAllow(t *testing.T) {
	p := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "x", SecurityContext: &corev1.SecurityContext{Privileged: new(true)}}}}}
	Default(p)
	if errs := Validate(p, Options{AllowPrivileged: true}); len(errs) > 0 {
		t.Error(errs)
	}
	if errs := Validate(p, Options{}); len(errs) != 1 {
		t.Error(errs)
	}
}

func TestManyErrorsKeepTheirPlaces(t *testing.T) {
	p := &corev1.Pod{}
	for range 300 {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "A", Image: "x"})
	}
	Default(p)
	errs := Validate(p, Options{})
	if last := errs[len(errs)-1]; last.Field != "spec.containers[299].name" {
		t.Errorf("the last error is at %s", last.Field)
	}
}
