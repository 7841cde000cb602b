// Package fairness proves from outside that requests get their places by FlowSchemas and PriorityLevelConfigurations.
package fairness
