; The rules of the embedded household games.
;
; One agent, receptacles that stand at locations, objects in or on receptacles. Names of actions,
; parameters and predicates are those of ALFWorld's games, so that one expert plans for both.

(define (domain household)
  (:requirements :adl :typing)
  (:types agent location receptacle object rtype otype)
  (:predicates
    (atLocation ?a - agent ?l - location)
    (receptacleAtLocation ?r - receptacle ?l - location)
    (receptacleType ?r - receptacle ?rt - rtype)
    (openable ?r - receptacle)
    (opened ?r - receptacle)
    (canContain ?rt - rtype ?ot - otype)
    (objectType ?o - object ?ot - otype)
    (inReceptacle ?o - object ?r - receptacle)
    (holds ?a - agent ?o - object)
    (holdsAny ?a - agent)
    (pickupable ?o - object)
    (cleanable ?o - object)
    (heatable ?o - object)
    (coolable ?o - object)
    (toggleable ?o - object)
    (isClean ?o - object)
    (isHot ?o - object)
    (isCool ?o - object)
    (isToggled ?o - object)
    (noticed ?a - agent))

  (:action look
    :parameters (?a - agent ?l - location)
    :precondition (atLocation ?a ?l)
    :effect (noticed ?a))

  (:action inventory
    :parameters (?a - agent)
    :precondition ()
    :effect (noticed ?a))

  (:action examineReceptacle
    :parameters (?a - agent ?l - location ?r - receptacle)
    :precondition (and (atLocation ?a ?l) (receptacleAtLocation ?r ?l))
    :effect (noticed ?a))

  (:action examineObject
    :parameters (?a - agent ?o - object)
    :precondition (holds ?a ?o)
    :effect (noticed ?a))

  (:action GotoLocation
    :parameters (?a - agent ?lStart - location ?lEnd - location ?r - receptacle)
    :precondition (and (atLocation ?a ?lStart) (receptacleAtLocation ?r ?lEnd))
    :effect (and (not (atLocation ?a ?lStart)) (atLocation ?a ?lEnd)))

  (:action OpenObject
    :parameters (?a - agent ?l - location ?r - receptacle)
    :precondition (and (atLocation ?a ?l) (receptacleAtLocation ?r ?l)
                       (openable ?r) (not (opened ?r)))
    :effect (opened ?r))

  (:action CloseObject
    :parameters (?a - agent ?l - location ?r - receptacle)
    :precondition (and (atLocation ?a ?l) (receptacleAtLocation ?r ?l)
                       (openable ?r) (opened ?r))
    :effect (not (opened ?r)))

  (:action PickupObject
    :parameters (?a - agent ?l - location ?o - object ?r - receptacle)
    :precondition (and (atLocation ?a ?l) (receptacleAtLocation ?r ?l) (inReceptacle ?o ?r)
                       (pickupable ?o) (not (holdsAny ?a))
                       (or (not (openable ?r)) (opened ?r)))
    :effect (and (not (inReceptacle ?o ?r)) (holds ?a ?o) (holdsAny ?a)))

  (:action PutObject
    :parameters (?a - agent ?l - location ?o - object ?r - receptacle ?ot - otype ?rt - rtype)
    :precondition (and (atLocation ?a ?l) (receptacleAtLocation ?r ?l) (holds ?a ?o)
                       (objectType ?o ?ot) (receptacleType ?r ?rt) (canContain ?rt ?ot)
                       (or (not (openable ?r)) (opened ?r)))
    :effect (and (inReceptacle ?o ?r) (not (holds ?a ?o)) (not (holdsAny ?a))))

  (:action CleanObject
    :parameters (?a - agent ?l - location ?r - receptacle ?o - object)
    :precondition (and (atLocation ?a ?l) (receptacleAtLocation ?r ?l) (holds ?a ?o)
                       (cleanable ?o) (receptacleType ?r SinkBasinType))
    :effect (isClean ?o))

  (:action HeatObject
    :parameters (?a - agent ?l - location ?r - receptacle ?o - object)
    :precondition (and (atLocation ?a ?l) (receptacleAtLocation ?r ?l) (holds ?a ?o)
                       (heatable ?o) (receptacleType ?r MicrowaveType))
    :effect (and (isHot ?o) (not (isCool ?o))))

  (:action CoolObject
    :parameters (?a - agent ?l - location ?r - receptacle ?o - object)
    :precondition (and (atLocation ?a ?l) (receptacleAtLocation ?r ?l) (holds ?a ?o)
                       (coolable ?o) (receptacleType ?r FridgeType))
    :effect (and (isCool ?o) (not (isHot ?o))))

  (:action ToggleObject
    :parameters (?a - agent ?l - location ?o - object ?r - receptacle)
    :precondition (and (atLocation ?a ?l) (receptacleAtLocation ?r ?l) (inReceptacle ?o ?r)
                       (toggleable ?o))
    :effect (isToggled ?o)))
