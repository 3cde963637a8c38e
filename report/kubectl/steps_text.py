"""The second part of a plan's bash script that is the same for every plan: the fence, and the steps behind it.

A fence cordons all nodes but its target. Evictions and bindings are posted to the pods' subresources (policy/v1 Eviction with the UID as a
precondition, v1 Binding): of kubectl's messages only ``TooManyRequests`` (a PodDisruptionBudget refuses, or the API server is busy) is a
reason to try again.
"""

from typing import Final

STEPS: Final = r"""
# --- the fence --------------------------------------------------------------------------------------------------------

# What is cordoned is noted before it is done, so that no interruption leaves a node behind.
cordon() {
  local node new=()
  for node in "$@"; do
    if [[ ${CORDONED[$node]} != true && ! (-n $DRY_RUN && -n ${FENCED[$node]-}) ]]; then
      new+=("$node")
      FENCED[$node]=1
    fi
  done
  ((${#new[@]} == 0)) || change kubectl cordon "${new[@]}" || stop 'nodes cannot be cordoned'
}

# fence [NODE]...: new pods can go to these nodes only; nowhere if there are none. Moves have a fence of one target, therefore targets
# come one after another. It stays up between steps, so that what is emptied is not filled by others. First the old target is closed, then
# the new one opened.
fence() {
  local node others=() closed=()
  local -A targets=()
  look_nodes
  for node in "$@"; do
    takes_pods "$node"
    targets[$node]=1
  done
  for node in "${!CORDONED[@]}"; do
    if [[ -z ${targets[$node]-} ]]; then others+=("$node"); elif [[ -n ${FENCED[$node]-} ]]; then closed+=("$node"); fi
  done
  ((${#others[@]} == 0)) || cordon "${others[@]}"
  ((${#closed[@]})) || return 0
  change kubectl uncordon "${closed[@]}" || stop "nodes cannot be uncordoned: ${closed[*]}"
  for node in "${closed[@]}"; do unset "FENCED[$node]"; done
}

# However the script ends: nodes that it cordoned are opened again.
# shellcheck disable=SC2329
finish() {
  local status=$? node open=() failed=() kept=()
  trap - EXIT
  trap '' HUP INT TERM
  for node in "${!FENCED[@]}"; do
    if [[ $status == 0 && -n ${DRAIN[$node]-} ]]; then kept+=("$node"); else open+=("$node"); fi
  done
  if ((${#open[@]})) && ! change kubectl uncordon "${open[@]}"; then  # one that is gone must not keep the others closed
    for node in "${open[@]}"; do
      change kubectl uncordon "$node" || failed+=("$node")
    done
  fi
  ((${#failed[@]} == 0)) || say "could not be uncordoned, do it by hand: kubectl uncordon ${failed[*]}" >&2
  if [[ $status != 0 ]]; then
    {
      say "$DONE of $STEPS steps are done, and the nodes that this script cordoned are open again."
      say 'The cluster is not what the rest of the plan expects: take a new snapshot and plan again (kubestow rebalance).'
      [[ -z $MANIFESTS ]] || say "Manifests of pods that no controller creates again: $MANIFESTS"
    } >&2
  elif [[ -n $DRY_RUN ]]; then
    say 'Nothing was changed (DRY_RUN).'
  else
    [[ -z $MANIFESTS ]] || rm -rf -- "$MANIFESTS"
    say "Done: $DONE of $STEPS steps."
    ((${#kept[@]} == 0)) || say "Drained nodes stay cordoned: ${kept[*]}"
  fi
  exit "$status"
}

# --- steps ------------------------------------------------------------------------------------------------------------

wave() { say "wave $1: $2"; }

# move NODE KEY...: these pods are evicted, and their replacements go to the node.
move() {
  local target=$1 key gone=()
  shift
  ready "$target" "$target" "$@"
  for key in "$@"; do
    say "  $key: ${AT[$key]} -> $target"
    if evict_pod "$key"; then gone+=("$key"); else break; fi
  done
  await "${gone[@]}"
  [[ -z $REFUSED ]] || stop "$REFUSED"
}

# evict KEY...: these pods go, and nothing takes their replacements while the fence is up.
evict() {
  local key gone=()
  ready '' - "$@"
  for key in "$@"; do
    say "  $key: evicted from ${AT[$key]}, its replacement stays pending"
    if evict_pod "$key"; then gone+=("$key"); else break; fi
  done
  await "${gone[@]}"
  [[ -z $REFUSED ]] || stop "$REFUSED"
}

# bind [KEY NODE]...: these pods are pending and get a node, all of them before any is waited for: pods of a gang need each other.
bind() {
  local key namespace body keys=()
  while (($#)); do
    GOAL[$1]=$2
    keys+=("$1")
    shift 2
  done
  ready '' '' "${keys[@]}"
  for key in "${keys[@]}"; do
    say "  $key: pending -> ${GOAL[$key]}"
    [[ ${AT[$key]} == - ]] || continue
    takes_pods "${GOAL[$key]}"
    namespace=${key%%/*}
    printf -v body '{"apiVersion":"v1","kind":"Binding","metadata":{"name":"%s","namespace":"%s","uid":"%s"},%s:"%s"}}' \
      "${NAME[$key]}" "$namespace" "${ID[$key]}" '"target":{"apiVersion":"v1","kind":"Node","name"' "${GOAL[$key]}"
    post "/api/v1/namespaces/$namespace/pods/${NAME[$key]}/binding" "$body" || stop "pod $key cannot be bound: $ANSWER"
  done
  await "${keys[@]}"
}

# let_in [KEY NODE]...: these pods are pending, and the scheduler gives them their nodes, all of them open at once: one that binds gangs
# whole waits for all members.
let_in() {
  local key keys=() targets=()
  while (($#)); do
    GOAL[$1]=$2
    keys+=("$1") targets+=("$2")
    shift 2
  done
  ready "${targets[*]}" '' "${keys[@]}"
  for key in "${keys[@]}"; do say "  $key: pending -> ${GOAL[$key]}, by the scheduler"; done
  await "${keys[@]}"
}

# ready NODES GOAL KEY...: these nodes alone are open, and the world is as the plan has it ("" as GOAL: it is set already).
ready() {
  local goal=$2 key nodes
  read -ra nodes <<< "$1"
  shift 2
  fence "${nodes[@]}"
  for key in "$@"; do [[ -z $goal ]] || GOAL[$key]=$goal; done
  REFUSED='' KNOWN=() CLAIMED=()
  [[ -z $DRY_RUN ]] || return 0
  check "$@"
  for key in "${!P_ID[@]}"; do [[ ${P_NODE[$key]} == - ]] || KNOWN[${P_ID[$key]}]=1; done
  for key in "$@"; do [[ ${AT[$key]} != "${GOAL[$key]}" ]] || unset "KNOWN[${ID[$key]}]"; done
}

evict_pod() {
  local key=$1 namespace=${1%%/*} name=${NAME[$1]} body deadline=$((SECONDS + RETRY_SECONDS))
  [[ ${OWNER[$key]} != - ]] || keep_manifest "$key"
  printf -v body '{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"%s","namespace":"%s"},%s:"%s"}}}' \
    "$name" "$namespace" '"deleteOptions":{"preconditions":{"uid"' "${ID[$key]}"
  until post "/api/v1/namespaces/$namespace/pods/$name/eviction" "$body"; do
    if [[ $ANSWER != *TooManyRequests* ]] || ((SECONDS >= deadline)); then
      REFUSED="pod $namespace/$name cannot be evicted: $ANSWER"  # said once those that went before have landed
      return 1
    fi
    pause
  done
}

# No controller creates this pod again: the script does, from what the cluster has of it now.
keep_manifest() {
  local namespace=${1%%/*} name=${NAME[$1]}
  [[ -z $DRY_RUN ]] || return 0
  [[ -n $MANIFESTS ]] || MANIFESTS=$(mktemp -d)
  kubectl get pod "$name" -n "$namespace" -o json > "$MANIFESTS/pod.json" || stop "pod $namespace/$name cannot be read"
  kubectl patch --local -f "$MANIFESTS/pod.json" --type=merge -o json \
    -p '{"metadata":{"resourceVersion":null,"uid":null,"creationTimestamp":null},"spec":{"nodeName":null},"status":null}' \
    > "$MANIFESTS/$namespace.$name.json" || stop "no manifest can be made of pod $namespace/$name"
  rm -f -- "$MANIFESTS/pod.json"
}

# await KEY...: every old pod is gone, and every replacement Ready on the pod's goal.
await() {
  local key left deadline=$((SECONDS + WAIT_SECONDS))
  while (($#)); do
    left=()
    if [[ -n $DRY_RUN ]] || look "$@"; then
      for key in "$@"; do
        if arrived "$key"; then DONE=$((DONE + 1)); else left+=("$key"); fi
      done
    else
      left=("$@")
    fi
    set -- "${left[@]}"
    (($#)) || break
    if ((SECONDS >= deadline)); then
      for key in "$@"; do awaited "$key" >&2; done
      stop "that took more than $WAIT_SECONDS s"
    fi
    pause
  done
}

awaited() {
  if [[ ${AT[$1]} != - && ${P_ID["${1%%/*}/${NAME[$1]}"]-} == "${ID[$1]}" ]]; then
    say "pod ${1%%/*}/${NAME[$1]} is not gone yet"
  else
    say "no pod that stands in for $1 is Ready on ${GOAL[$1]}"
  fi
}

arrived() {
  local key=$1 namespace=${1%%/*} old names name pod
  local who="$namespace ${OWNER[$key]}" target=${GOAL[$key]}
  old=$namespace/${NAME[$key]}
  if [[ -n $DRY_RUN ]]; then
    case ${AT[$key]} in
      - | "$target") ;;
      *) [[ ${OWNER[$key]} == - || ${OWNER[$key]} == StatefulSet/* ]] || NAME[$key]="REPLACEMENT-OF-${1#*/}"
        ID[$key]=UID-OF-REPLACEMENT ;;
    esac
    AT[$key]=$target
    return 0
  fi
  names=${NAME[$key]}
  if [[ ${AT[$key]} != - && ${AT[$key]} != "$target" ]]; then  # it was evicted
    [[ ${P_ID[$old]-} != "${ID[$key]}" ]] || return 1
    if [[ ${OWNER[$key]} == - && -z ${MADE[$key]-} ]]; then
      change kubectl create -f "$MANIFESTS/$namespace.${NAME[$key]}.json" || stop "pod $old cannot be created again"
      MADE[$key]=1
      [[ $target == - ]] || return 1
    fi
    if [[ $target == - ]]; then
      settle "$key" -
      return 0
    fi
    [[ ${OWNER[$key]} == - || ${OWNER[$key]} == StatefulSet/* ]] || names=${OF[$who]-}
  fi
  for name in $names; do
    pod=$namespace/$name
    [[ -n ${P_ID[$pod]-} && -z ${P_GOING[$pod]} && ${P_NODE[$pod]} != - ]] || continue
    [[ -z ${KNOWN[${P_ID[$pod]}]-} && -z ${CLAIMED[${P_ID[$pod]}]-} ]] || continue
    [[ ${P_NODE[$pod]} == "$target" ]] || stop "pod $pod landed on ${P_NODE[$pod]}: the plan has $key on $target"
    [[ ${P_PHASE[$pod]} != Failed ]] || stop "pod $pod failed on $target"
    [[ ${P_READY[$pod]} == True || ${P_PHASE[$pod]} == Succeeded ]] || continue
    CLAIMED[${P_ID[$pod]}]=1
    NAME[$key]=$name ID[$key]=${P_ID[$pod]} MADE[$key]=''
    settle "$key" "$target"
    return 0
  done
  return 1
}

settle() { # settle KEY NODE: the pod is there now
  local who="${1%%/*} ${OWNER[$1]}"
  [[ ${AT[$1]} == - ]] || expect "$who" "${AT[$1]}" -1
  [[ $2 == - ]] || expect "$who" "$2" 1
  AT[$1]=$2
}
"""
