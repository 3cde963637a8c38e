"""The first part of a plan's bash script that is the same for every plan: what the plan expects of the cluster, and looking whether it
is so.

Needs bash 4.4, kubectl and coreutils. Everything it reads from the cluster comes as custom columns, so that no JSON has to be parsed;
names of plan and snapshot are checked to be DNS names.
"""

from typing import Final

WORLD: Final = r"""
set -euo pipefail
set -f  # names are never patterns
export LC_ALL=C

WAIT_SECONDS=${WAIT_SECONDS:-600}    # for the replacements of one group of pods to be Ready
RETRY_SECONDS=${RETRY_SECONDS:-300}  # for a PodDisruptionBudget to allow an eviction
POLL_SECONDS=${POLL_SECONDS:-2}
DRY_RUN=${DRY_RUN:-}

# By namespace/name as the plan has it: where the pod is now ("-": nowhere), and what its replacement is called.
declare -A AT=() NAME=() ID=() OWNER=() GOAL=()
# Pods of a workload that the plan expects on a node: "namespace owner node", and its nodes: "namespace owner".
declare -A EXPECT=() CREW=()
# Pods as last seen, by namespace/name; per workload their names, nodes and numbers on a node.
declare -A P_ID=() P_NODE=() P_PHASE=() P_READY=() P_GOING=() P_OWNER=() OF=() LIVE=() LIVE_NODES=()
# UIDs of pods that were bound before a step, and of replacements that were found.
declare -A KNOWN=() CLAIMED=()
# Nodes: as last seen (true: cordoned; True: Ready), those that this script cordoned, those to drain.
declare -A CORDONED=() NODE_READY=() FENCED=() DRAIN=()
# Pods without a controller that were created again.
declare -A MADE=()
STEPS=0 DONE=0 ANSWER='' REFUSED='' MANIFESTS=''

say() { printf '%s\n' "$*"; }

stop() {
  printf 'stopped: %s\n' "$*" >&2
  exit 1
}

pause() { sleep "$POLL_SECONDS"; }

# Whatever changes the cluster goes through here.
change() {
  if [[ -n $DRY_RUN ]]; then
    printf '%q ' "$@"
    printf '\n'
  else
    "$@" > /dev/null
  fi
}

# post PATH BODY: the answer is in ANSWER.
post() {
  if [[ -n $DRY_RUN ]]; then
    printf '%q ' kubectl create --raw "$1" -f -
    printf '<<< %q\n' "$2"
  else
    ANSWER=$(kubectl create --raw "$1" -f - <<< "$2" 2>&1)
  fi
}

# Reading is tried three times: a plan should not end for one lost connection.
ask() {
  local try
  for try in 1 2 3; do
    if ROWS=$(kubectl get "$@"); then return 0; fi
    [[ $try == 3 ]] || pause
  done
  return 1
}

# --- the snapshot -----------------------------------------------------------------------------------------------------

content() {
  case $(head -c 3 -- "$1" | od -An -v -tx1 | tr -d ' \n') in
    1f8b*) gzip -dc -- "$1" ;;
    efbbbf) tail -c +4 -- "$1" ;;
    *) cat -- "$1" ;;
  esac
}

# The hash of a set of files, as kubestow writes it into its results: SHA-256 over their sorted SHA-256 digests.
combined() {
  local file hexes all='' hex
  for file in "$@"; do
    [[ -f $file && -r $file ]] || stop "$file is no file that can be read; name the files of the snapshot one by one"
  done
  hexes=$(for file in "$@"; do content "$file" | sha256sum | cut -d ' ' -f 1; done | sort -u)
  for hex in $hexes; do
    while [[ -n $hex ]]; do
      all+="\\x${hex:0:2}"
      hex=${hex:2}
    done
  done
  printf '%b' "$all" | sha256sum | cut -d ' ' -f 1
}

same_snapshot() {
  local found
  (($#)) || return 0
  found=$(combined "$@")
  [[ $found == "$SNAPSHOT" ]] || stop "this plan is of snapshot $SNAPSHOT, the files given are $found"
}

# --- statements that say what the plan expects ------------------------------------------------------------------------

is_name() { [[ $1 =~ ^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$ ]] || stop "no name of the Kubernetes API: $(printf '%q' "$1")"; }

# pod NAMESPACE/NAME NODE UID OWNER: "-" for what it does not have; OWNER is KIND/NAME.
pod() {
  is_name "${1%%/*}"
  is_name "${1#*/}"
  [[ $2 == - ]] || is_name "$2"
  NAME[$1]=${1#*/} AT[$1]=$2 ID[$1]=$3 OWNER[$1]=$4
}

# crew NAMESPACE OWNER [NODE PODS]...: where all pods of a workload run.
crew() {
  local who="$1 $2"
  CREW[$who]=''
  shift 2
  while (($#)); do
    is_name "$1"
    expect "$who" "$1" "$2"
    shift 2
  done
}

expect() { # expect "NAMESPACE OWNER" NODE CHANGE
  CREW[$1]+=" $2"
  EXPECT["$1 $2"]=$((${EXPECT["$1 $2"]:-0} + $3))
}

drain() {
  local node
  for node in "$@"; do
    is_name "$node"
    DRAIN[$node]=1
  done
}

# --- the world --------------------------------------------------------------------------------------------------------

NODE_COLUMNS='NAME:.metadata.name,CORDONED:.spec.unschedulable,READY:.status.conditions[?(@.type=="Ready")].status'

look_nodes() {
  local name cordoned ready
  ask nodes --no-headers -o "custom-columns=$NODE_COLUMNS" || stop 'the nodes cannot be listed'
  CORDONED=() NODE_READY=()
  while read -r name cordoned ready; do
    [[ -z $name ]] || CORDONED[$name]=$cordoned NODE_READY[$name]=$ready
  done <<< "$ROWS"
}

# takes_pods NODE: it is there, Ready, and closed by nobody but this script.
takes_pods() {
  [[ -n ${CORDONED[$1]-} ]] || stop "there is no node $1 any more"
  [[ ${CORDONED[$1]} != true || -n ${FENCED[$1]-} ]] || stop "node $1 is cordoned, and not by this script"
  [[ ${NODE_READY[$1]} == True || ${NODE_READY[$1]} == '<none>' ]] || stop "node $1 is not Ready"
}

POD_COLUMNS='NAME:.metadata.name,UID:.metadata.uid,NODE:.spec.nodeName,PHASE:.status.phase'
POD_COLUMNS+=',READY:.status.conditions[?(@.type=="Ready")].status,GOING:.metadata.deletionTimestamp'
POD_COLUMNS+=',KIND:.metadata.ownerReferences[?(@.controller==true)].kind,OWNER:.metadata.ownerReferences[?(@.controller==true)].name'

# look KEY...: all pods of the namespaces of these pods.
look() {
  local key namespace id name node phase ready going kind owner who
  local -A spaces=()
  for key in "$@"; do spaces[${key%%/*}]=1; done
  P_ID=() P_NODE=() P_PHASE=() P_READY=() P_GOING=() P_OWNER=() OF=() LIVE=() LIVE_NODES=()
  for namespace in "${!spaces[@]}"; do
    ask pods -n "$namespace" --no-headers -o "custom-columns=$POD_COLUMNS" || return 1
    while read -r name id node phase ready going kind owner; do
      [[ -n $name ]] || continue
      key=$namespace/$name owner=$kind/$owner
      [[ $kind != '<none>' ]] || owner=-
      [[ $node != '<none>' ]] || node=-
      [[ $going != '<none>' ]] || going=''
      P_ID[$key]=$id P_NODE[$key]=$node P_PHASE[$key]=$phase P_READY[$key]=$ready P_GOING[$key]=$going P_OWNER[$key]=$owner
      who="$namespace $owner"
      OF[$who]="${OF[$who]-} $name"
      if [[ $node != - && -z $going && $phase != Succeeded && $phase != Failed ]]; then
        LIVE["$who $node"]=$((${LIVE["$who $node"]:-0} + 1))
        LIVE_NODES[$who]="${LIVE_NODES[$who]-} $node"
      fi
    done <<< "$ROWS"
  done
}

# check KEY...: these pods and all others of their workloads are where the plan has them.
check() {
  local key pod who node planned
  local -A seen=()
  look "$@" || stop 'the pods cannot be listed'
  for key in "$@"; do
    pod=${key%%/*}/${NAME[$key]}
    [[ -n ${P_ID[$pod]-} ]] || stop "pod $pod is gone"
    [[ ${ID[$key]} == - || ${ID[$key]} == "${P_ID[$pod]}" ]] ||
      stop "pod $pod is not the one of the plan: its UID is ${P_ID[$pod]}, not ${ID[$key]}"
    [[ ${OWNER[$key]} == "${P_OWNER[$pod]}" ]] || stop "pod $pod belongs to ${P_OWNER[$pod]}, in the plan to ${OWNER[$key]}"
    [[ -z ${P_GOING[$pod]} ]] || stop "pod $pod is being deleted"
    node=${P_NODE[$pod]}
    if [[ ${AT[$key]} == - && $node != - && $node == "${GOAL[$key]-}" ]]; then
      expect "${key%%/*} ${OWNER[$key]}" "$node" 1  # the scheduler was faster
      AT[$key]=$node
    fi
    planned=${AT[$key]}
    [[ $planned != - ]] || planned=${GOAL[$key]:--}  # it waits, and may be let in
    [[ ${AT[$key]} == "$node" ]] || stop "pod $pod is on $(where "$node"), in the plan on $(where "$planned")"
    [[ ${P_PHASE[$pod]} != Succeeded && ${P_PHASE[$pod]} != Failed ]] || stop "pod $pod is over: ${P_PHASE[$pod]}"
    ID[$key]=${P_ID[$pod]}
    seen["${key%%/*} ${OWNER[$key]}"]=1
  done
  for who in "${!seen[@]}"; do
    [[ $who != *' -' ]] || continue
    for node in ${CREW[$who]-} ${LIVE_NODES[$who]-}; do
      [[ ${EXPECT["$who $node"]:-0} == "${LIVE["$who $node"]:-0}" ]] ||
        stop "$who: ${LIVE["$who $node"]:-0} pods run on $node, in the plan ${EXPECT["$who $node"]:-0}"
    done
  done
}

where() { if [[ $1 == - ]]; then say 'no node'; else say "$1"; fi; }

# begin TARGET...: all is as the plan expects it, before anything is changed.
begin() {
  local node
  say "context: $(kubectl config current-context 2> /dev/null || say 'none')"
  look_nodes
  for node in "$@"; do
    is_name "$node"
    takes_pods "$node"
  done
  for node in "${!DRAIN[@]}"; do
    [[ -n ${CORDONED[$node]-} ]] || stop "there is no node $node any more"
  done
  ((${#NAME[@]} == 0)) || check "${!NAME[@]}"
  trap finish EXIT
  trap 'exit 129' HUP
  trap 'exit 130' INT
  trap 'exit 143' TERM
  ((${#DRAIN[@]} == 0)) || cordon "${!DRAIN[@]}"
}
"""
