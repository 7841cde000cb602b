package config_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/scheduler"
	"github.com/millrace/millrace/internal/scheduler/config"
)

const head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"

// describe lists the rules of a profile with the weights of their scores.
func describe(p scheduler.Profile) string {
	var words []string
	for _, f := range p.Rules.Filters {
		words = append(words, f.Name())
	}
	words = append(words, "|")
	for _, s := range p.Rules.Scores {
		words = append(words, strings.Repeat("+", int(s.Weight))+s.Plugin.Name())
	}
	words = append(words, "|")
	for _, r := range p.Rules.Relations {
		words = append(words, strings.Repeat("+", int(r.Weight))+r.Plugin.Name())
	}
	words = append(words, "|")
	for _, r := range p.Rules.Pods {
		words = append(words, strings.Repeat("+", int(r.Weight))+r.Plugin.Name())
	}
	if p.NoPreemption {
		words = append(words, "| no preemption")
	}
	return strings.Join(words, " ")
}

const (
	allFilters = "NodeUnschedulable TaintToleration NodeAffinity NodePorts NodeResourcesFit"
	allScores  = "+++TaintToleration ++NodeAffinity +NodeResourcesFit +NodeResourcesBalancedAllocation"
	allOthers  = "++PodTopologySpread ++InterPodAffinity +ImageLocality"
	allVolumes = "VolumeRestrictions NodeVolumeLimits +VolumeBinding VolumeZone ++DynamicResources"
)

func TestPluginsAreEnabledAndDisabledByName(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"nothing", "", allFilters + " | " + allScores + " | " + allOthers + " | " + allVolumes},
		{
			"one is disabled everywhere, another one's score", `
profiles:
- plugins:
    multiPoint:
      disabled: [{name: InterPodAffinity}]
    score:
      disabled: [{name: TaintToleration}]
`, allFilters + " | ++NodeAffinity +NodeResourcesFit +NodeResourcesBalancedAllocation | ++PodTopologySpread +ImageLocality | " + allVolumes,
		},
		{
			"a score counts more", `
profiles:
- plugins:
    multiPoint:
      enabled: [{name: TaintToleration, weight: 5}]
    score:
      enabled: [{name: ImageLocality, weight: 4}]
`, allFilters + " | +++++TaintToleration ++NodeAffinity +NodeResourcesFit +NodeResourcesBalancedAllocation | ++PodTopologySpread ++InterPodAffinity ++++ImageLocality | " + allVolumes,
		},
		{
			"only one is left, and nobody preempts", `
profiles:
- plugins:
    multiPoint:
      disabled: [{name: "*"}]
    queueSort: {enabled: [{name: PrioritySort}]}
    bind: {enabled: [{name: DefaultBinder}]}
    filter: {enabled: [{name: NodeResourcesFit}]}
`, "NodeResourcesFit | | | | no preemption",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			file, err := config.Parse([]byte(head + c.text))
			if err != nil {
				t.Fatal(err)
			}
			var o scheduler.Options
			if err := config.Apply(file, &o); err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(strings.Fields(describe(o.Profiles[0])), " "); !strings.HasPrefix(got, strings.Join(strings.Fields(c.want), " ")) {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestWhatAConfigurationMayNotSay(t *testing.T) {
	for _, c := range []struct {
		text string
		want []string
	}{
		{"parallelism: -1\nprofles: []\n", []string{`strict decoding error: unknown field "profles"`}},
		{"parallelism: 0\n", []string{"parallelism: Invalid value: 0: should be an integer value greater than zero"}},
		{"profiles: [{schedulerName: a}, {schedulerName: a}, {}]\n", []string{
			"profiles[1].schedulerName: Duplicate value: {}", "profiles[2].schedulerName: Required value",
		}},
		{"percentageOfNodesToScore: 101\npodInitialBackoffSeconds: 5\npodMaxBackoffSeconds: 2\n", []string{
			"percentageOfNodesToScore: Invalid value: 101: not in valid range [0-100]",
			"podMaxBackoffSeconds: Invalid value: 2: must be greater than or equal to PodInitialBackoffSeconds",
		}},
		{"profiles: [{pluginConfig: [{name: InterPodAffinity, args: {hardPodAffinityWeight: 101}}]}]\n", []string{
			"profiles[0].pluginConfig[0].args.hardPodAffinityWeight: Invalid value: 101: not in valid range [0, 100]",
		}},
		{"profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: Tidy}}}]}]\n", []string{
			`profiles[0].pluginConfig[0].args.scoringStrategy.type: Unsupported value: "Tidy": supported values: "LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"`,
		}},
		{"profiles: [{pluginConfig: [{name: NodeAffinity, args: {addedAffinty: {}}}]}]\n", []string{
			`strict decoding error: decoding .profiles[0].pluginConfig[0]: strict decoding error: decoding args for plugin NodeAffinity: strict decoding error: unknown field "addedAffinty"`,
		}},
		{"extenders: [{urlPrefix: x, prioritizeVerb: p, bindVerb: b}, {urlPrefix: z, bindVerb: b, managedResources: [{name: gpu}]}]\n", []string{
			"extenders[0].weight: Invalid value: 0: must have a positive weight applied to it",
			`extenders[1].managedResources[0].name: Invalid value: "gpu": is an invalid extended resource name`,
			`extenders: Invalid value: "found 2 extenders implementing bind": only one extender can implement bind`,
		}},
	} {
		_, err := config.Parse([]byte(head + c.text))
		if err == nil {
			t.Errorf("%s is accepted", c.text)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v\nlacks %s", c.text, err, want)
			}
		}
	}
}

func TestPluginsThatThereAreNoneOf(t *testing.T) {
	for text, want := range map[string]string{
		"profiles: [{plugins: {filter: {enabled: [{name: Foo}]}}}]\n":          `initializing profiles: creating profile for scheduler name default-scheduler: FilterPlugin "Foo" does not exist`,
		"profiles: [{plugins: {score: {enabled: [{name: NodePorts}]}}}]\n":     `initializing profiles: creating profile for scheduler name default-scheduler: plugin "NodePorts" does not extend ScorePlugin plugin`,
		"profiles: [{plugins: {bind: {disabled: [{name: DefaultBinder}]}}}]\n": `initializing profiles: creating profile for scheduler name default-scheduler: at least one bind plugin is needed for profile with scheduler name "default-scheduler"`,
	} {
		file, err := config.Parse([]byte(head + text))
		if err != nil {
			t.Fatal(err)
		}
		if err := config.Apply(file, &scheduler.Options{}); err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}

func TestArgumentsReachTheirRules(t *testing.T) {
	file, err := config.Parse([]byte(head + `
podInitialBackoffSeconds: 3
profiles:
- schedulerName: packer
  pluginConfig:
  - name: DefaultPreemption
    args: {minCandidateNodesPercentage: 20}
  - name: NodeAffinity
    args:
      addedAffinity:
        requiredDuringSchedulingIgnoredDuringExecution:
          nodeSelectorTerms: [{matchExpressions: [{key: disk, operator: Exists}]}]
  - name: NodeResourcesFit
    args:
      ignoredResources: [example.com/free]
      scoringStrategy:
        type: RequestedToCapacityRatio
        resources: [{name: cpu, weight: 3}]
        requestedToCapacityRatio: {shape: [{utilization: 0, score: 0}, {utilization: 100, score: 10}]}
`))
	if err != nil {
		t.Fatal(err)
	}
	var o scheduler.Options
	if err := config.Apply(file, &o); err != nil {
		t.Fatal(err)
	}
	p := o.Profiles[0]
	if *p.Candidates != (scheduler.Candidates{Percent: 20, Least: 100}) || p.SchedulerName != "packer" || o.Backlog.Backoff.Seconds() != 3 {
		t.Errorf("%+v %+v", p, o.Backlog)
	}
	var filters []string
	for _, f := range p.Rules.Filters {
		filters = append(filters, f.Name())
	}
	if !slices.Equal(filters, []string{"NodeUnschedulable", "TaintToleration", "NodeAffinity", "NodeAffinity", "NodePorts", "NodeResourcesFit"}) {
		t.Errorf("filters: %v", filters)
	}
}
